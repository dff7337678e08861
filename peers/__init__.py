"""Foreign programs to test and measure against: fetched into a cache, started, stopped.

One module a kind: `kafka` (Apache Kafka brokers and its Java tools), `java` (small Java sources against the
Kafka clients), `node` (kafkajs), `golang` (franz-go), `kcat`, `hdfs` (a NameNode and a DataNode). Each has
`missing() -> str | None`: the reason why the program cannot run here, or None. `require(reason)` turns a reason into a
skipped test, or, where the environment says `CI=true`, into a failed one: a peer that silently never ran judges
nothing.

The cache is `$KAFKALOG_PEERS`, by default `~/.cache/kafkalog/peers`; it can be deleted at any time.
"""

from peers.cache import MissingPeerError, require

__all__ = ["MissingPeerError", "require"]

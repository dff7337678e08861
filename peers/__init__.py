"""Fetch, start and stop foreign programs, for tests and benchmarks.

Each kind of program has a module: `kafka` (Apache Kafka brokers and their Java tools), `secured_kafka` (a broker with
TLS, SASL and ACLs; `certificates`, `stores` and `tokens` make what clients show), `java` (small Java sources against
the Kafka clients), `node` (kafkajs), `golang` (franz-go), `kcat`, `hdfs` (a NameNode and a DataNode). Each module has
`missing() -> str | None`: the reason why the program cannot run here, or None. `require(reason)` skips the test for
that reason. Under `CI=true` it fails the test, so that a missing program cannot go unnoticed.

The programs are cached in `$KAFKALOG_PEERS`, by default `~/.cache/kafkalog/peers`. The directory may be deleted at any
time.
"""

from peers.cache import MissingPeerError, require

__all__ = ["MissingPeerError", "require"]

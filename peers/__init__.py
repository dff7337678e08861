"""Fetch, start and stop foreign programs, for tests and benchmarks.

- `brokers/`     Apache Kafka's brokers, with and without security, their ZooKeeper and their Java tools
- `security/`    what clients show and servers check: certificates, stores, tokens, Kerberos
- `clusters/`    clusters that Spark's applications use: HDFS, YARN, Spark's own
- `clients/`     foreign clients behind one interface; `kcat` the command line of librdkafka
- `toolchains/`  what builds and runs programs of other languages: Java with Maven, Node.js, Go
- `cache`        where programs are kept, and what happens where one is missing; `fetch` fills it
- `process`      starts a program, waits for it and ends it; `server` a server that runs while a `with` block does

Each module of a program has `missing() -> str | None`: the reason why the program cannot run here, or None.
`require(reason)` skips the test for that reason. Under `CI=true` it fails the test, so that a missing program cannot go
unnoticed.

The programs are cached in `$KAFKALOG_PEERS`, by default `~/.cache/kafkalog/peers`. The directory may be deleted at any
time.
"""

from peers.cache import MissingPeerError, require

__all__ = ["MissingPeerError", "require"]

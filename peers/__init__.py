"""Fetch, start and stop foreign programs, for tests and benchmarks.

- `kafka`          Apache Kafka brokers and their Java tools; `kafka_tools` the tools in one Java process; `zookeeper`
                   the ZooKeeper that its brokers need
- `secured_kafka`  a broker with TLS, SASL and ACLs; `certificates`, `stores` and `tokens` make what clients show;
                   `kerberos` a KDC
- `hdfs`           a NameNode and a DataNode; `yarn` a ResourceManager and NodeManagers; `spark_cluster`
                   Spark's own master and its workers; `hadoop` is what the first two share
- `kcat`           the command line of librdkafka; `clients` foreign clients behind one interface
- `java`           small Java sources against the Kafka clients; `node` programs for kafkajs, `golang` for franz-go
- `cache`          where programs are kept, and what happens where one is missing; `fetch` fills it, `maven` brings
                   Java's part
- `process`        start a program, wait for it and end it; `server` a server that runs while a `with` block does;
                   `probe` asks a broker whether it is ready

The folder stays flat: tests name a program where they import its module, and most modules are for a program each.

Each module of a program has `missing() -> str | None`: the reason why the program cannot run here, or None.
`require(reason)` skips the test for that reason. Under `CI=true` it fails the test, so that a missing program cannot go
unnoticed.

The programs are cached in `$KAFKALOG_PEERS`, by default `~/.cache/kafkalog/peers`. The directory may be deleted at any
time.
"""

from peers.cache import MissingPeerError, require

__all__ = ["MissingPeerError", "require"]

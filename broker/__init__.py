"""The broker: topics, partitions and offsets, served over Kafka's wire protocol.

Each package imports only those below it (the contract stands in pyproject.toml). From the top:

- `cli/`         the broker's commands of `kafkalog`
- `main`         runs a broker as a process: logging, signals, exit codes
- `server`       starts and stops the parts of a broker in order
- `migration/`   moves a stopped broker's metadata between its registry and ZooKeeper
- `modes/`       how a lone broker and a member of a cluster differ in starting and stopping
- `assembly`     builds the parts that serve requests
- `gates`        puts what authenticates clients in front of the dispatcher
- `metrics/`     the broker's metrics in Prometheus' format
- `api/`         one handler module for each family of APIs
- `coordinator/` groups and transactions, whose state is kept in internal topics
- `controller/`  decisions about the cluster: pure functions, and the services that commit them
- `member/`      a broker as a member of a cluster over ZooKeeper
- `replica/`     partitions as replicas: roles, high watermark, operations that wait
- `cluster_links` links from this broker to the others of its cluster
- `security/`    who may speak with the broker, how, and what they may do: TLS, SASL, ACLs
- `runtime`      what a broker is given from outside: loop, workers, clock, network, files, random numbers
- `net/`         listeners, client connections, links to other brokers
- `metadata/`    the cluster's metadata: model, operations, stores, and the cache that requests read
- `config/`      every configuration key, declared once
- `log/`         one partition's log and everything that maintains it
- `quota/`       what clients may use of a broker
- `counters`     plain counters that serving requests increments
- `zookeeper/`   sessions with ZooKeeper, for brokers of a cluster
- `system/`      threads, and the memory that files take
"""

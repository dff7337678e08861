"""A Kafka-compatible commit log: its records, its protocol, its clients and its command line.

- `cli`              the command line
- `client`           producers, consumers, administration
- `mirror`           mirrors topics between clusters
- `protocol`         the wire protocol
- `records`          record batches, codecs, kernels
- `storage`          the layout of a log directory
- `zookeeper`        ZooKeeper's nodes, as brokers and clients read and write them
- `signalled`        an event that signals set
- `java_regex`       regular expressions of Java over names of topics
- `backoff`          pauses that grow while one thing fails again and again
- `java_numbers`     numbers in configurations and options, as Java reads them
- `java_properties`  the format of configuration files, for brokers and clients
"""

__version__ = "0.1.0"

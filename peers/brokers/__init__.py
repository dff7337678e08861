"""Apache Kafka's brokers and what belongs to them.

- `kafka`          brokers and their Java tools; `kafka_tools` the tools in one Java process
- `secured_kafka`  a broker with TLS, SASL and ACLs
- `zookeeper`      the ZooKeeper that brokers of a cluster need
- `storage`        the files of a formatted log directory; `class_data` archives of the classes that brokers load
- `probe`          asks a broker whether it is ready
"""

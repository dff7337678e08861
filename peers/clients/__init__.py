"""Foreign clients behind one small interface, so that one test runs with all of them.

- `base`         the interface
- `lines`        clients that are programs: Java, kafkajs, franz-go
- `confluent`, `kafka_py`, `aio`  the Python libraries
- `kcat_client`  the command line kcat
- `old_java`     Kafka's clients from before 0.11, which lack that interface
- `old_connector` a member of a group in ZooKeeper, of Kafka 0.8.2
- `workers`      a producer and a group of Java, franz-go or kafka-python, which work while brokers are disturbed
- `registry`     every client by name
"""

"""Clients that nobody here wrote, behind one small interface, so that one test asks all of them the same.

`base` has the interface; `lines` the clients that are programs (Java, kafkajs, franz-go), `confluent`,
`kafka_python`, `aio` the Python libraries, `kcat_client` the command line. `old_java` runs Kafka's clients of
before 0.11, which have no such interface.
"""

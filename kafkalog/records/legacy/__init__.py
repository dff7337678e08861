"""The formats that record batch v2 replaced, and conversion between them.

- `message_set`  message sets v0 (Kafka 0.8) and v1 (Kafka 0.10)
- `kafka_0_7`    the messages of Kafka 0.7
- `convert`      batches of one format to another: down for old clients, up for readers
- `upgrade`      a compressed message set to one batch of v2, in one pass
"""

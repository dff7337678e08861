"""A Kafka-compatible commit log: its records, its protocol, its clients and its command line."""

__version__ = "0.1.0"

"""Directories that Apache Kafka and our broker hand to each other."""

"""The secured Apache Kafka, with our clients and others."""

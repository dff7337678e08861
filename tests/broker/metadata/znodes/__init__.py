"""Tests of the nodes of a cluster in ZooKeeper, against the bytes that Apache Kafka writes."""

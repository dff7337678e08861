"""Tests of the wire protocol: tables, codecs, and the bytes that Apache Kafka's own classes write."""

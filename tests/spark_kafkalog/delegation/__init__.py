"""Tests of `spark_kafkalog.delegation`."""

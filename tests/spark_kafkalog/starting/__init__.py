"""Tests of Python processes that Spark starts by `kafkalog-python`."""

"""Fixtures: one Spark session for all tests, and topics to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from peers import java
from peers.cache import require
from tests.spark.session import start_session
from tests.spark.topics import Topics


@pytest.fixture(scope="session")
def spark(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start a session with local[2]. Python workers run the same Python as the tests."""
    require(java.missing())
    session = start_session(tmp_path_factory.mktemp("spark"))
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def topics(broker_address: str) -> Topics:
    return Topics(broker_address)


class Reads:
    """Data frames over one broker with the source under test."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap

    def batch(self, schema: str | None = None, /, **options: Any) -> DataFrame:
        reader = self.spark.read.format("kafkalog").option("kafka.bootstrap.servers", self.bootstrap)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()

    def stream(self, schema: str | None = None, /, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("kafkalog").option("kafka.bootstrap.servers", self.bootstrap)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()


@pytest.fixture
def reads(spark: SparkSession, broker_address: str) -> Reads:
    return Reads(spark, broker_address)

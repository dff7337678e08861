"""One Spark session for all tests, and topics to read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.peers import java
from tests.peers.cache import require
from tests.spark.topics import Topics

PURE = {"test_options", "test_schema", "test_offsets"}
_LOG4J2 = """status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c: %m%n
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts Spark is marked so; planning and options need no JVM."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem not in PURE:
            item.add_marker(pytest.mark.spark)


def session_options(directory: Path) -> dict[str, str]:
    """Settings of a small and quiet local session; its log goes to ``directory``/spark.log."""
    config = directory / "log4j2.properties"
    config.write_text(_LOG4J2.format(log=directory / "spark.log"))
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{config}",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.streaming.stopTimeout": "60000",
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2]. Python workers run what the tests run."""
    require(java.missing())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master("local[2]").appName("kafkalog tests")
    for key, value in session_options(tmp_path_factory.mktemp("spark")).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
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

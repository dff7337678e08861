"""Fixtures: one Spark session for all tests, topics to read, and file systems to write to."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from peers.cache import require
from peers.clusters import hdfs
from peers.toolchains import java
from tests.spark_kafkalog.class_data import short_lived
from tests.spark_kafkalog.session import start_session
from tests.spark_kafkalog.topics import Topics

# Applications that tests start as users do: programs, notebooks and commands that know nothing of tests.
os.environ.setdefault("SPARK_SUBMIT_OPTS", short_lived())

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark(processes: None, krb5_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
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


@pytest.fixture(scope="session")
def running_hdfs(foreign_programs: None) -> Iterator[hdfs.Hdfs]:
    """Run one HDFS for all tests."""
    require(hdfs.missing())
    with hdfs.Hdfs() as running:
        yield running


@pytest.fixture(params=["local", pytest.param("hdfs", marks=pytest.mark.peer)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a directory that does not exist yet."""
    if request.param == "local":
        return (tmp_path / "loads").as_uri()
    hdfs_target: str = request.getfixturevalue("hdfs_target")
    return hdfs_target


@pytest.fixture
def hdfs_target(running_hdfs: hdfs.Hdfs) -> str:
    """Return the URL of a directory of HDFS that does not exist yet."""
    return f"{running_hdfs.url}/test{next(_numbers)}/loads"

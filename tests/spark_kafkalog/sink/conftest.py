"""Fixtures of the tests of the sink: writers with and without Spark, and a foreign consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkalog import faults
from tests.spark_kafkalog.sink.support import Tasks
from tests.spark_kafkalog.sink.transactional.committed import Died


@pytest.fixture(scope="session")
def tasks(broker_address: str) -> Tasks:
    return Tasks(broker_address)


class Writes:
    """Write data frames to one broker."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap

    def batch(self, frame: DataFrame, mode: str = "append", /, **options: Any) -> None:
        writer = frame.write.format("kafkalog").mode(mode).option("kafka.bootstrap.servers", self.bootstrap)
        writer.options(**options).save()


@pytest.fixture
def writes(spark: SparkSession, broker_address: str) -> Writes:
    return Writes(spark, broker_address)


@pytest.fixture
def die_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Let this process "die" at a fault point, until None is set."""

    def at(name: str | None) -> None:
        def point(reached: str) -> None:
            if reached == name:
                raise Died(name)

        monkeypatch.setattr(faults, "point", point)

    return at

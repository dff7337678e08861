"""Test that Spark reads from and writes to our own broker with a login."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.secured.sasl_broker import SaslBroker


@pytest.mark.timeout(300)
def test_batches_with_scram(spark: SparkSession, tmp_path: Path) -> None:
    with SaslBroker(tmp_path) as broker:
        broker.add_scram_users()
        options = {f"kafka.{name}": value for name, value in broker.properties("SCRAM-SHA-512").items()}
        rows = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format("kafkalog").options(**options).option("topic", "t").mode("append").save()
        read = spark.read.format("kafkalog").options(**options).option("subscribe", "t").load()
        found = {int(row.value) for row in read.collect()}
        assert found == set(range(100))

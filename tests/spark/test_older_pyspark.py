"""PySpark 4.2, the oldest that is supported; and a query that changes from Spark's own source to this one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.peers.cache import MissingPeerError, require
from tests.spark import older
from tests.spark.topics import Topics, numbers, values_of

pytestmark = [pytest.mark.peer, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]


def run(topics: Topics, topic: str, directory: Path, source: str, jars: list[Path]) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    command = [str(older.python()), "-m", "tests.spark.drill.older", topics.bootstrap, topic, str(directory), source]
    done = subprocess.run(
        [*command, ",".join(map(str, jars))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_query_of_sparks_own_source_goes_on_with_this_one(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """Changing the format's name is the whole migration: the checkpoint stays."""
    require(older.missing())
    try:
        jars = older.connector()
    except MissingPeerError as error:
        require(str(error))
        raise
    topic = topics.create("migrates", 2)
    topics.produce(topic, numbers(100), partition=0)
    run(topics, topic, tmp_path, "kafka", jars)
    topics.produce(topic, numbers(60, 100), partition=0)
    said = run(topics, topic, tmp_path, "kafkalog", [])
    assert said == {"pyspark": older.PYSPARK, "batch": 160, "batches": 2}
    assert values_of(spark.read.parquet(str(tmp_path / "out")).collect()) == numbers(160)

"""Tests of other PySpark versions, and of a query that changes between this source and Spark's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from peers.cache import MissingPeerError, require
from spark_kafkalog.compat.versions import TESTED
from tests.spark_kafkalog import older
from tests.spark_kafkalog.topics import Topics, numbers, values_of

pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("version", sorted(TESTED - {pyspark.__version__}))
def test_canaries(version: str) -> None:
    """PySpark's private parts are as the source expects them, in each version that the table names."""
    require(older.missing(version))
    done = subprocess.run(
        [
            str(older.python(version)),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/spark_kafkalog/compat/test_compat.py",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=ROOT,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout[-6000:]


def clean_environment() -> dict[str, str]:
    """The environment without what names an installation of Spark."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    return environment


def run(topics: Topics, topic: str, directory: Path, source: str, jars: list[Path]) -> Any:
    command = [
        str(older.python()),
        "-m",
        "tests.spark_kafkalog.drill.older",
        topics.bootstrap,
        topic,
        str(directory),
        source,
    ]
    done = subprocess.run(
        [*command, ",".join(map(str, jars))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_query_goes_over_to_sparks_own_source_and_back(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Changing the format's name is the whole migration, in both directions, after the first batch, too."""
    require(older.missing())
    try:
        jars = older.connector()
    except MissingPeerError as error:
        require(str(error))
        raise
    topic = topics.create("migrates", 2)
    topics.produce(topic, numbers(40), partition=0)
    said = run(topics, topic, tmp_path, "kafkalog", [])
    assert said == {"pyspark": older.PYSPARK, "batch": 40, "batches": 1}
    topics.produce(topic, numbers(60, 40), partition=0)
    run(topics, topic, tmp_path, "kafka", jars)
    topics.produce(topic, numbers(60, 100), partition=0)
    said = run(topics, topic, tmp_path, "kafkalog", [])
    assert said == {"pyspark": older.PYSPARK, "batch": 160, "batches": 2}
    assert values_of(spark.read.parquet(str(tmp_path / "out")).collect()) == numbers(160)

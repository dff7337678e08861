"""Test that a driver killed before its first commit keeps its start offsets while a producer writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from peers.process import tail
from spark_kafkalog import offsets
from tests.spark_kafkalog.kills.support import DEADLINE_S, PARTITIONS, ROOT, Driver, log_content
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.kafkalog_broker import KafkalogBroker


@pytest.fixture
def started(processes: None) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_a_kill_before_the_first_batch_is_committed(
    spark: SparkSession, broker: KafkalogBroker, tmp_path: Path, started: ExitStack
) -> None:
    """Every record from the start on is read once, although "latest" is elsewhere at every start."""
    topics = Topics(broker.bootstrap)
    topic = topics.create("first-batch", PARTITIONS)
    topics.produce(topic, numbers(50, -1000))
    command = [
        sys.executable,
        "-m",
        "tests.spark_kafkalog.drill.producer",
        broker.bootstrap,
        topic,
        str(tmp_path / "acknowledged"),
    ]
    producer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    started.callback(producer.kill)
    for run in range(2):
        driver = Driver("hang", broker.bootstrap, topic, tmp_path, run, module="tests.spark_kafkalog.drill.first")
        started.callback(driver.kill)
        driver.wait_said("batch 0 has")
        driver.kill()
    offset_log, commits = tmp_path / "checkpoint" / "offsets", tmp_path / "checkpoint" / "commits"
    assert [file.name for file in offset_log.iterdir() if file.name.isdigit()] == ["0"]
    assert not commits.exists() or not [file for file in commits.iterdir() if file.name.isdigit()]
    start = offsets.initial_of(json.loads((offset_log / "0").read_text().splitlines()[2]))
    assert start is not None
    producer.communicate("\n", timeout=DEADLINE_S)
    last = Driver("drain", broker.bootstrap, topic, tmp_path, 2, module="tests.spark_kafkalog.drill.first")
    started.callback(last.kill)
    assert last.process.wait(DEADLINE_S) == 0, tail(tmp_path / "driver2.out")

    log = log_content(broker.bootstrap, topic)
    due = {where for where in log if where[1] >= start.offsets[topic, where[0]]}  # type: ignore[index]
    assert due
    rows = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset").collect()
    read = [(row.partition, row.offset) for row in rows]
    assert len(read) == len(set(read)), "read twice"
    assert set(read) == due

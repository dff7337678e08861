"""Test that nothing is lost or read twice when the driver, its JVM, its workers and the broker are killed.

A producer keeps writing. A driver streams the topic into Parquet and is killed (SIGKILL, all of its processes) at
random moments, again and again, always with the same checkpoint; the broker is killed once, too. At the end a drain
with Trigger.AvailableNow, and Spark's own view of its output must hold every record of the log exactly once.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from peers.process import tail
from tests.spark_kafkalog.kills.support import DEADLINE_S, PARTITIONS, ROOT, Driver, Records, log_content
from tests.spark_kafkalog.topics import Topics
from tests.support.kafkalog_broker import KafkalogBroker


def acknowledged_in(path: Path) -> Records:
    lines = [line.split() for line in path.read_text().splitlines()]
    return {(int(partition), int(offset)): number for partition, offset, number in lines}


@pytest.fixture
def started(processes: None) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def drill(
    spark: SparkSession, broker: KafkalogBroker, directory: Path, started: ExitStack, kills: int, seed: int
) -> None:
    dice = random.Random(seed)
    topic = Topics(broker.bootstrap).create("drill", PARTITIONS)
    acknowledged = directory / "acknowledged"
    producer = subprocess.Popen(
        [sys.executable, "-m", "tests.spark_kafkalog.drill.producer", broker.bootstrap, topic, str(acknowledged)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    started.callback(producer.kill)
    broker_dies_in = dice.randrange(kills)
    for run in range(kills):
        driver = Driver("stream", broker.bootstrap, topic, directory, run)
        started.callback(driver.kill)
        driver.wait_started()
        if dice.random() < 0.7:
            driver.wait_batches(1 + dice.randrange(3))
        if run == broker_dies_in:
            broker.kill()
            broker.start()
            driver.wait_batches(driver.batches() + 2)
        time.sleep(dice.uniform(0, 1.0))
        driver.kill()
    sent, _ = producer.communicate("\n", timeout=DEADLINE_S)
    assert producer.returncode == 0
    last = Driver("drain", broker.bootstrap, topic, directory, kills)
    started.callback(last.kill)
    assert last.process.wait(DEADLINE_S) == 0, tail(directory / f"driver{kills}.out")

    log = log_content(broker.bootstrap, topic)
    assert acknowledged_in(acknowledged).items() <= log.items()
    assert sorted(map(int, log.values())) == list(range(int(sent))), "the idempotent producer wrote each number once"
    rows = (
        spark.read.parquet(str(directory / "out"))
        .selectExpr("partition", "offset", "substring_index(string(value), ' ', 1) AS number")
        .toArrow()
        .to_pydict()
    )
    where = list(zip(rows["partition"], rows["offset"], strict=True))
    assert len(where) == len(set(where)), "read twice"
    assert dict(zip(where, rows["number"], strict=True)) == log


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_drill(
    spark: SparkSession, start_broker: Callable[[], KafkalogBroker], tmp_path: Path, started: ExitStack
) -> None:
    drill(spark, start_broker(), tmp_path, started, kills=2, seed=20)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(5))
def test_long_drill(
    spark: SparkSession, start_broker: Callable[[], KafkalogBroker], tmp_path: Path, started: ExitStack, seed: int
) -> None:
    drill(spark, start_broker(), tmp_path, started, kills=20, seed=seed)

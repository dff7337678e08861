"""Test that nothing is lost or read twice when the driver, its JVM, its workers and the broker are killed.

A producer keeps writing. A driver streams the topic into Parquet and is killed (SIGKILL, all of its processes) at
random moments, again and again, always with the same checkpoint; the broker is killed once, too. At the end a drain
with Trigger.AvailableNow, and Spark's own view of its output must hold every record of the log exactly once.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from peers.process import Process, tail
from tests.spark_kafkalog.topics import Topics
from tests.support.kafkalog_broker import KafkalogBroker

ROOT = Path(__file__).parents[3]
PARTITIONS = 3
DEADLINE_S = 240.0

Records = dict[tuple[int, int], str]
"""Partition and offset to the record's number."""


class Driver:
    """A Spark driver in a session of its own, so that all of its processes can be found."""

    def __init__(
        self,
        mode: str,
        bootstrap: str,
        topic: str,
        directory: Path,
        run: int,
        *,
        module: str = "tests.spark_kafkalog.drill.driver",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._log = directory / f"driver{run}.out"
        command = [sys.executable, "-m", module, mode, bootstrap, topic, str(directory)]
        self.process = Process(command, self._log, cwd=ROOT, env=env)

    def batches(self) -> int:
        """Return the number of batches that the driver has reported as done."""
        return tail(self._log, 1 << 20).count("batch ")

    def wait_said(self, text: str) -> None:
        self.process.wait_until(lambda: text in tail(self._log), DEADLINE_S)

    def wait_started(self) -> None:
        self.wait_said("started")

    def wait_batches(self, count: int) -> None:
        self.process.wait_until(lambda: self.batches() >= count, DEADLINE_S)

    def kill(self) -> None:
        """SIGKILL to driver, JVM, planner and workers; the daemon of the workers leaves the driver's process group."""
        end = time.monotonic() + DEADLINE_S
        while alive := self._alive():
            assert time.monotonic() < end, f"still alive: {alive}"
            for process in alive:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(alive, timeout=0.2)
        self.process.wait(DEADLINE_S)

    def _alive(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found


def log_content(bootstrap: str, topic: str) -> Records:
    """Every record, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "drill", "enable.auto.commit": False})
    try:
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)[1]
            for partition in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        found: Records = {}
        end = time.monotonic() + DEADLINE_S
        while len(found) < sum(ends.values()):
            assert time.monotonic() < end, f"read {len(found)} of {sum(ends.values())} records"
            for message in consumer.consume(10_000, timeout=1):
                assert not message.error()
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                found[partition, offset] = value.split()[0].decode()
        return found
    finally:
        consumer.close()


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

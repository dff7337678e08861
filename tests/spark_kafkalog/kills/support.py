"""A Spark driver that can be killed with all that it has started, and the log that it reads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from confluent_kafka import Consumer, TopicPartition

from peers.process import Process, tail

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

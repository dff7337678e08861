"""Test loaders and compactions that are killed (SIGKILL) at every step and at random times, and run again.

Whatever happens, the published loads hold every offset of the log exactly once, and Spark, pyarrow and DuckDB read the
same rows. Processes are those that a user starts; a few with Spark, the others with --without-spark, in which the steps
are the same.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_kafkalog.load.layout.file_names import COMPACTING, staging_path
from tests.spark_kafkalog.load.loading import Loading, data_files, expected, rows_of
from tests.spark_kafkalog.topics import T0_MS, Topics
from tests.support import faults
from tests.support.command import command

DEADLINE_S = 240.0
PARTITIONS = 2
LOAD_POINTS = [
    "planned",
    "staging-made",
    "lease-taken",
    "split-begun",
    "batch-written",
    "split-written:2",
    "splits-done",
    "file-moved:2",
    "files-moved",
    "document-written",
    "synced",
    "before-rename",
    "after-rename",
    "sweep-renamed",
]
COMPACT_POINTS = [
    "compact-merged",
    "compact-committed",
    "compact-sign-up:2",
    "compact-hidden:3",
    "compact-shown",
    "compact-sign-down",
    "compact-exchanged",
    "compact-moved-away",
]
ON_HDFS = ["split-written", "file-moved:2", "before-rename", "after-rename", "compact-hidden:2", "compact-shown"]

Totals = tuple[int, int, int]
"""Rows, sum of the offsets, sum of the numbers that are their values."""


class Drill:
    """A topic that grows, and loaders that die."""

    def __init__(self, topics: Topics, target: str, directory: Path, seed: int = 0) -> None:
        self.loading = Loading(topics, target)
        self.topic = topics.create("drill", PARTITIONS)
        self.sent: list[Any] = []
        self.dice = random.Random(seed)
        self._output = directory / "drill.out"
        self._orders = directory / "faults"
        self._numbers = itertools.count()
        self._starts = itertools.count()

    def produce(self, count: int = 30) -> None:
        """Some records of two hours."""
        records = [
            {"value": b"%d" % number, "timestamp": T0_MS + number % 2 * 3_600_000}
            for number in itertools.islice(self._numbers, count)
        ]
        self.sent += self.loading.topics.produce(self.topic, records)

    def start(self, *words: str, fault: str = "") -> subprocess.Popen[bytes]:
        """`fault`: the point at which it dies, `NAME:N` for the N-th time that it passes it."""
        common = ["--topic", self.topic, "--to", self.loading.target]
        orders = self._orders / str(next(self._starts))
        if fault:
            orders.mkdir(parents=True)
            point, _, nth = fault.partition(":")
            faults.place(orders, point, nth=int(nth or 1))
        with self._output.open("ab") as output:
            return subprocess.Popen(
                command("load", *words, *common),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **faults.environment(orders)},
                start_new_session=True,
            )

    def load(self, *words: str, fault: str = "") -> subprocess.Popen[bytes]:
        spark = [] if words else ["--without-spark"]
        server = ["--bootstrap-server", self.loading.topics.bootstrap]
        return self.start(*server, "--quiet", "--min-splits", "3", *spark, *words, fault=fault)

    def compact(self, fault: str = "") -> subprocess.Popen[bytes]:
        return self.start("compact", fault=fault)

    def dies(self, process: subprocess.Popen[bytes]) -> None:
        """The fault point was passed."""
        assert process.wait(DEADLINE_S) == -signal.SIGKILL, self.said()

    def succeeds(self, process: subprocess.Popen[bytes]) -> None:
        assert process.wait(DEADLINE_S) == 0, self.said()

    def kill_at_random(self, process: subprocess.Popen[bytes], most_s: float) -> bool:
        """SIGKILL to all of its processes after a random time; whether it lived until then."""
        delay = self.dice.uniform(0, most_s)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)
            return True
        return False

    def said(self) -> str:
        return self._output.read_text()[-4000:]

    def check(self) -> None:
        """Every record that was produced is published exactly once, and nothing is left behind."""
        assert self.loading.rows(self.topic) == expected(self.sent)
        ends: dict[int, int] = {}
        for document in self.loading.history(self.topic):
            for number, part in document.partitions.items():
                assert part.start == ends.get(number, 0)
                ends[number] = part.end
        assert COMPACTING not in self.loading.names(self.topic)

    def totals(self) -> Totals:
        rows = expected(self.sent)
        return len(rows), sum(offset for _, offset in rows), sum(int(value or b"") for value in rows.values())


def by_pyarrow(path: str) -> Totals:
    import pyarrow.dataset as ds

    table = ds.dataset(path, partitioning="hive").to_table(columns=["offset", "value", "load", "date", "hour"])
    return table.num_rows, sum(table["offset"].to_pylist()), sum(map(int, table["value"].to_pylist()))


def by_duckdb(path: str) -> Totals:
    import duckdb

    query = (
        'SELECT count(*), sum("offset"), sum(CAST(decode(value) AS BIGINT)) '
        f"FROM read_parquet('{path}/load=*/*/*/*.parquet', hive_partitioning=true)"
    )
    found = duckdb.sql(query)
    assert found is not None
    rows, offsets, numbers = found.fetchall()[0]
    return int(rows), int(offsets), int(numbers)


@pytest.mark.timeout(600)
def test_killed_at_every_step_of_a_load(topics: Topics, local_target: str, tmp_path: Path) -> None:
    drill = Drill(topics, local_target, tmp_path)
    for point in LOAD_POINTS:
        drill.produce()
        # The last one sweeps what the one before has left.
        drill.dies(drill.load(fault=point))
    drill.produce()
    drill.succeeds(drill.load())
    drill.check()
    # The one that died before it had a lease is swept when its directory is old; it is empty.
    staging = staging_path(drill.loading.path(drill.topic))
    assert [drill.loading.files.list(f"{staging}/{each.name}") for each in drill.loading.files.list(staging)] == [[]]
    drill.loading.check(drill.topic)
    path = drill.loading.path(drill.topic)
    assert by_pyarrow(path) == by_duckdb(path) == drill.totals()


@pytest.mark.timeout(600)
def test_killed_at_every_step_of_a_compaction(topics: Topics, local_target: str, tmp_path: Path) -> None:
    drill = Drill(topics, local_target, tmp_path)
    for point in COMPACT_POINTS:
        for _ in range(2):
            drill.produce()
            drill.loading.load(drill.topic)
        drill.dies(drill.compact(fault=point))
    drill.succeeds(drill.compact())
    drill.check()
    path = drill.loading.path(drill.topic)
    assert by_pyarrow(path) == by_duckdb(path) == drill.totals()
    assert len(data_files(drill.loading.files, path)) == 2 * PARTITIONS


@pytest.mark.peer
@pytest.mark.timeout(600)
def test_killed_on_hdfs(topics: Topics, running_hdfs: Any, tmp_path: Path) -> None:
    drill = Drill(topics, f"{running_hdfs.url}/drill", tmp_path)
    drill.produce()
    drill.succeeds(drill.load())
    for point in ON_HDFS:
        drill.produce()
        drill.dies(drill.compact(fault=point) if point.startswith("compact") else drill.load(fault=point))
        if point == "after-rename":
            drill.succeeds(drill.load())
    drill.succeeds(drill.load())
    drill.check()


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_killed_at_random_with_spark(
    topics: Topics, local_target: str, tmp_path: Path, run_spark: Callable[[str], Totals]
) -> None:
    """Driver, JVM and Python workers."""
    drill = Drill(topics, local_target, tmp_path, seed=7)
    for fault in ("files-moved", ""):
        drill.produce()
        process = drill.load("--master", "local[2]", fault=fault)
        if fault:
            drill.dies(process)
        else:
            drill.kill_at_random(process, 8.0)
    drill.produce()
    drill.succeeds(drill.load("--master", "local[2]"))
    drill.check()
    path = drill.loading.path(drill.topic)
    assert run_spark(path) == by_pyarrow(path) == by_duckdb(path) == drill.totals()


def long_drill(drill: Drill, kills: int) -> None:
    """Loads and compactions side by side, killed at random times and at random steps."""
    killed = 0
    began = time.monotonic()
    while killed < kills:
        drill.produce(drill.dice.randrange(1, 60))
        others = []
        if drill.dice.random() < 0.3:
            others.append(drill.compact())
        if drill.dice.random() < 0.2:
            others.append(drill.load())
        if drill.dice.random() < 0.3:
            point = drill.dice.choice(LOAD_POINTS[:-1])
            killed += drill.load(fault=point).wait(DEADLINE_S) == -signal.SIGKILL
        elif drill.dice.random() < 0.3:
            point = drill.dice.choice(COMPACT_POINTS)
            killed += drill.compact(fault=point).wait(DEADLINE_S) == -signal.SIGKILL
        else:
            killed += drill.kill_at_random(drill.load(), 2.5)
        for process in others:
            killed += drill.kill_at_random(process, 2.5)
        assert time.monotonic() - began < 60 * kills
    drill.produce()
    drill.succeeds(drill.load())
    drill.succeeds(drill.compact())
    drill.check()
    assert rows_of(drill.loading.files, drill.loading.path(drill.topic)) == expected(drill.sent)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2))
def test_long_drill(
    topics: Topics, local_target: str, tmp_path: Path, run_spark: Callable[[str], Totals], seed: int
) -> None:
    drill = Drill(topics, local_target, tmp_path, seed)
    long_drill(drill, kills=150)
    path = drill.loading.path(drill.topic)
    assert run_spark(path) == by_pyarrow(path) == by_duckdb(path) == drill.totals()


@pytest.mark.peer
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_long_drill_on_hdfs(topics: Topics, running_hdfs: Any, tmp_path: Path) -> None:
    long_drill(Drill(topics, f"{running_hdfs.url}/long-drill", tmp_path, 5), kills=60)

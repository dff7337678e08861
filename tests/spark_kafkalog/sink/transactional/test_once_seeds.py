"""Test the transactional mode by seeds, with an engine that behaves as Spark's (`tests.spark_kafkalog.drill.engine`).

What takes Spark a quarter of a minute takes this a second: hundreds of deaths in a soak. All processes and the broker
are real.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peers.process import tail
from tests.spark_kafkalog.drill.engine import EngineProcess
from tests.spark_kafkalog.sink.transactional.committed import MicroBatch, committed
from tests.spark_kafkalog.topics import Topics
from tests.support import faults
from tests.support.amount import mostly_exhaustive
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

DEADLINE_S = 240.0
SEEDS = range(6)
SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))
SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "300"))
KINDS = ("process", "process", "driver", "driver", "driver", "any time", "any time", "broker", "task")
POINTS = faults.SINK_POINTS

pytestmark = pytest.mark.spark


class Seeds:
    """One query, struck once for each seed."""

    def __init__(self, broker: KafkalogBroker, directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        topics = Topics(broker.bootstrap)
        self._topic = topics.create("to", 2)
        # What the processes load is loaded before they are forked.
        warm = topics.create("warm")
        batch = MicroBatch(broker.bootstrap, warm, warm, 0)
        batch.commit(batch.task([b"warm"]))
        self._engine: EngineProcess | None = None

    def run(self, seed: int) -> str:
        """Strike as the seed says, and check what is seen then; what was done."""
        dice = random.Random(seed)
        engine = self._running(seed)
        what = dice.choice(
            ["process", "process", "driver", "driver", "driver", "any time", "any time", "broker", "task"]
        )
        if what in ("process", "driver"):
            point = dice.choice(POINTS)
            self.strike(what, point)
            what = f"{what} at {point}"
        elif what == "task":
            order = self._directory / "fail"
            order.touch()
            self._until(lambda: not order.exists())
        else:
            done = engine.done()
            self._until(lambda: engine.done() > done)
            time.sleep(dice.uniform(0, 0.5))
        if what == "broker":
            self._broker.kill()
            time.sleep(dice.uniform(0, 0.5))
            self._broker.start()
        elif what == "any time":
            self.close()
        self.check()
        return what

    def check(self) -> None:
        """Check that everything that was committed is seen, once.

        Not at once: readers wait at the first row of an attempt that died, until the next batch clears it away.
        """
        engine = self._running(0)
        done = engine.done()
        self._until(lambda: engine.done() > done)
        least = engine.done()
        missing: set[int] = set()

        def all_there() -> bool:
            found = Counter(int(value) for value in committed(self._broker.bootstrap, self._topic))
            twice = sorted(number for number, count in found.items() if count > 1)
            assert not twice, f"twice: {twice}"
            missing.clear()
            missing.update(set(range(least)) - set(found))
            return not missing

        try:
            self._until(all_there)
        except AssertionError as error:
            raise AssertionError(f"missing: {sorted(missing)}\n{error}") from None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.kill()
            self._engine = None

    def _running(self, seed: int) -> EngineProcess:
        if self._engine is None:
            self._engine = EngineProcess(self._broker.bootstrap, self._topic, self._directory, seed)
        return self._engine

    def strike(self, who: str, point: str) -> None:
        """Have a process, or the driver and all of them, die where the next one gets to a fault point."""
        self._running(0)
        # One that is stopped there dies with all others at that moment.
        order = faults.place(self._directory / "faults", point, "SIGKILL" if who == "process" else "SIGSTOP")
        self._until(lambda: not order.exists())
        if who == "driver":
            self.close()

    def _until(self, holds: Callable[[], bool]) -> None:
        try:
            wait_until(holds, "the engine to go on", DEADLINE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._said()}") from None

    def _said(self) -> str:
        return tail(self._directory / "said", 4000)


@contextmanager
def drill(broker: KafkalogBroker, directory: Path) -> Iterator[Seeds]:
    directory.mkdir()
    made = Seeds(broker, directory)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("who", mostly_exhaustive(["process", "driver"], 1))
def test_every_point(start_broker: Callable[..., KafkalogBroker], tmp_path: Path, who: str) -> None:
    """The process that gets there dies alone, or the driver with all of its processes."""
    with drill(start_broker(), tmp_path / "engine") as query:
        for point in POINTS:
            query.strike(who, point)
            query.check()


@pytest.mark.timeout(600)
def test_a_handful_of_seeds(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    run_seeds(start_broker(), tmp_path / "engine", SEEDS)


@pytest.mark.soak
@pytest.mark.timeout(24 * 3600)
def test_seeds(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    """KAFKALOG_SOAK_COUNT seeds from KAFKALOG_SOAK_FIRST on, fifty of them with the same query."""
    for first in range(SOAK_FIRST, SOAK_FIRST + SOAK_COUNT, 50):
        seeds = range(first, min(first + 50, SOAK_FIRST + SOAK_COUNT))
        run_seeds(start_broker(), tmp_path / f"engine{first}", seeds)


def run_seeds(broker: KafkalogBroker, directory: Path, seeds: range) -> None:
    with drill(broker, directory) as query:
        for seed in seeds:
            began = time.monotonic()
            what = query.run(seed)
            print(f"seed {seed}: {what}, {time.monotonic() - began:.1f} s", flush=True)

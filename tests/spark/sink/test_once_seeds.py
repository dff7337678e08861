"""The drill of the transactional mode by seeds, with an engine that behaves as Spark's (``tests.spark.drill.engine``).

What takes Spark a quarter of a minute takes this a second: hundreds of deaths in a soak. All processes and the broker
are real.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_kafkalog.sink.once import faults
from tests.peers.process import tail
from tests.spark.drill.engine import EngineProcess
from tests.spark.sink.committed import MicroBatch, committed
from tests.spark.topics import Topics
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

DEADLINE_S = 240.0
SEEDS = range(12)
SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))
SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "300"))
KINDS = ("process", "process", "driver", "driver", "driver", "any time", "any time", "broker", "task")
POINTS = (*faults.DRIVER_POINTS, *faults.TASK_POINTS)

pytestmark = pytest.mark.crash


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
            self._strike(point, signal.SIGKILL if what == "process" else signal.SIGSTOP)
            what = f"{what} at {point}"
        elif what == "task":
            order = self._directory / "fail"
            order.touch()
            self._until(lambda: not order.exists())
        else:
            done = engine.done()
            self._until(lambda: engine.done() > done)
            time.sleep(dice.uniform(0, 0.5))
        if what.startswith("broker"):
            self._broker.kill()
            time.sleep(dice.uniform(0, 0.5))
            self._broker.start()
        elif what.startswith(("driver", "any time")):
            self.close()
        self.check()
        return what

    def check(self) -> None:
        """What was committed before is seen, once; nothing else than what may be."""
        engine = self._running(0)
        done = engine.done()
        self._until(lambda: engine.done() > done)
        least = engine.done()
        found = Counter(int(value) for value in committed(self._broker.bootstrap, self._topic))
        twice = sorted(number for number, count in found.items() if count > 1)
        assert not twice, f"twice: {twice}\n{self._said()}"
        missing = sorted(set(range(least)) - set(found))
        assert not missing, f"missing: {missing}\n{self._said()}"

    def close(self) -> None:
        if self._engine is not None:
            self._engine.kill()
            self._engine = None

    def _running(self, seed: int) -> EngineProcess:
        if self._engine is None:
            self._engine = EngineProcess(self._broker.bootstrap, self._topic, self._directory, seed)
        return self._engine

    def _strike(self, point: str, number: signal.Signals) -> None:
        order = self._directory / "faults" / point
        new = self._directory / "order"
        new.write_text(number.name)
        new.rename(order)
        self._until(lambda: not order.exists())

    def _until(self, holds: Callable[[], bool]) -> None:
        try:
            wait_until(holds, "the engine to go on", DEADLINE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._said()}") from None

    def _said(self) -> str:
        return tail(self._directory / "said", 4000)


def run_seeds(broker: KafkalogBroker, directory: Path, seeds: range) -> None:
    directory.mkdir()
    drill = Seeds(broker, directory)
    try:
        for seed in seeds:
            began = time.monotonic()
            what = drill.run(seed)
            print(f"seed {seed}: {what}, {time.monotonic() - began:.1f} s", flush=True)
    finally:
        drill.close()


def test_a_handful_of_seeds(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    run_seeds(start_broker(), tmp_path / "engine", SEEDS)


@pytest.mark.soak
def test_seeds(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    """KAFKALOG_SOAK_COUNT seeds from KAFKALOG_SOAK_FIRST on, fifty of them with the same query."""
    for first in range(SOAK_FIRST, SOAK_FIRST + SOAK_COUNT, 50):
        seeds = range(first, min(first + 50, SOAK_FIRST + SOAK_COUNT))
        run_seeds(start_broker(), tmp_path / f"engine{first}", seeds)

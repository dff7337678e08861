"""Test that a read_committed consumer sees each record of the transactional mode exactly once, whatever dies.

A query in processes of its own streams one topic to another. Processes are struck at fault points and at random times:
a task, the process that commits, the driver with all of its processes; the broker is killed, too. The same query goes
on from its checkpoint. Every fault point has its turn in `test_once_seeds`, which is quicker.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from peers.cache import require
from peers.process import tail
from peers.toolchains import java
from tests.spark_kafkalog.kills.support import Driver
from tests.spark_kafkalog.sink.transactional.committed import committed
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support import faults
from tests.support.kafkalog_broker import KafkalogBroker

DEADLINE_S = 600.0
PARTITIONS = 3
RECORDS = 90
SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))
SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "100"))
POINTS = faults.SINK_POINTS


pytestmark = pytest.mark.spark


class Drill:
    """Two topics, and a driver that copies the one to the other as often as it is started."""

    def __init__(self, broker: KafkalogBroker, directory: Path, seed: int) -> None:
        self.broker = broker
        self.dice = random.Random(seed)
        self.produced = 0
        self._topics = Topics(broker.bootstrap)
        self._topic = self._topics.create("from", PARTITIONS)
        self._to = self._topics.create("to", 2)
        self._directory = directory / self._to
        self._orders = self._directory / "faults"
        self._orders.mkdir(parents=True)
        self._runs = 0
        self._driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        """A running driver."""
        if self._driver is None:
            self._runs += 1
            self._driver = Driver(
                self._to,
                self.broker.bootstrap,
                self._topic,
                self._directory,
                self._runs,
                module="tests.spark_kafkalog.drill.once",
                env=faults.environment(self._orders),
            )
        return self._driver

    def produce(self, count: int = RECORDS) -> None:
        self._topics.produce(self._topic, numbers(count, self.produced))
        self.produced += count

    def strike(self, point: str, number: signal.Signals) -> None:
        """Have whoever gets to a fault point next get a signal, and wait until that has happened."""
        order = faults.place(self._orders, point, number.name)
        driver = self.driver
        self.produce()
        driver.process.wait_until(lambda: not order.exists(), DEADLINE_S)

    def kill(self) -> None:
        """SIGKILL to the driver and all of its processes."""
        self.driver.kill()
        self._driver = None

    def fail_a_task(self) -> None:
        order = self._directory / "fail"
        order.touch()
        driver = self.driver
        self.produce()
        driver.process.wait_until(lambda: not order.exists(), DEADLINE_S)

    def kill_broker(self) -> None:
        self.broker.kill()
        time.sleep(self.dice.uniform(0, 1))
        self.broker.start()

    def seen(self) -> Counter[int]:
        return Counter(int(value) for value in committed(self.broker.bootstrap, self._to))

    def check(self) -> None:
        """All that was produced arrives, each record once."""
        driver, found = self.driver, Counter[int]()

        def all_there() -> bool:
            nonlocal found
            found = self.seen()
            assert not found or max(found.values()) == 1, f"twice: {[n for n, count in found.items() if count > 1]}"
            return len(found) >= self.produced

        try:
            driver.process.wait_until(all_there, DEADLINE_S, poll_s=0.2)
        except Exception as error:
            missing = sorted(set(range(self.produced)) - set(found))
            raise AssertionError(f"missing: {missing[:20]} ({len(missing)})\n{self.said()}") from error
        assert set(found) == set(range(self.produced))

    def said(self) -> str:
        """Return the end of the driver's output."""
        return tail(self._directory / f"driver{self._runs}.out", 8000)

    def close(self) -> None:
        if self._driver is not None:
            self._driver.kill()


@pytest.fixture
def drills(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> Iterator[Callable[[int], Drill]]:
    require(java.missing())
    with ExitStack() as stack:

        def drill(seed: int) -> Drill:
            made = Drill(start_broker(), tmp_path, seed)
            stack.callback(made.close)
            return made

        yield drill


@pytest.mark.timeout(900)
def test_processes_of_spark_die(drills: Callable[[int], Drill]) -> None:
    """A task, which Spark repeats, and processes in which it claims and commits, whose query is started again."""
    drill = drills(1)
    for point in ("task-flushed", "after-claim", "between-commits"):
        drill.strike(point, signal.SIGKILL)
    drill.fail_a_task()
    drill.check()
    assert "this attempt was asked to fail" not in drill.said(), "Spark was to try the task again"


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_the_driver_and_the_broker_die(drills: Callable[[int], Drill]) -> None:
    drill = drills(2)
    for point in ("after-decision", "task-unflushed"):
        # Stopped there, it dies with all others at that moment.
        drill.strike(point, signal.SIGSTOP)
        drill.kill()
    drill.produce()
    drill.driver.wait_batches(1)
    drill.produce()
    drill.kill_broker()
    drill.check()


@pytest.mark.soak
@pytest.mark.timeout(24 * 3600)
def test_seeds(drills: Callable[[int], Drill]) -> None:
    """KAFKALOG_SOAK_COUNT seeds from KAFKALOG_SOAK_FIRST on; each strikes a query, twenty of them the same one."""
    for first in range(SOAK_FIRST, SOAK_FIRST + SOAK_COUNT, 20):
        drill = drills(first)
        for seed in range(first, min(first + 20, SOAK_FIRST + SOAK_COUNT)):
            drill.dice = random.Random(seed)
            print(f"seed {seed}: {one_seed(drill)}", flush=True)
            drill.check()
        drill.close()


def one_seed(drill: Drill) -> str:
    """Strike once; what was done."""
    what = drill.dice.choice(["process", "process", "process", "driver", "driver", "any time", "broker", "task"])
    if what == "task":
        drill.fail_a_task()
    elif what == "process":
        point = drill.dice.choice(POINTS)
        drill.strike(point, signal.SIGKILL)
        what = f"a process dies at {point}"
    elif what == "driver":
        point = drill.dice.choice(POINTS)
        drill.strike(point, signal.SIGSTOP)
        drill.kill()
        what = f"the driver dies at {point}"
    else:
        driver = drill.driver
        drill.produce()
        driver.wait_batches(1)
        drill.produce(4 * RECORDS)
        time.sleep(drill.dice.uniform(0, 4))
        if what == "broker":
            drill.kill_broker()
        else:
            drill.kill()
    return what

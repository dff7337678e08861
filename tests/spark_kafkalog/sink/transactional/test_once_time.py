"""Test the time that a micro-batch may take, and what is left of it for the commits. Without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.coordinators import Coordinators
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.sink.transactional import commit_driver, transaction_ends, transactional_ids
from spark_kafkalog.sink.transactional.claim import BatchWrote
from spark_kafkalog.sink.transactional.errors import LateBatchError
from spark_kafkalog.sink.transactional.ledger import Ledger
from spark_kafkalog.sink.transactional.ledger_record import Record, State, TaskTransaction
from spark_kafkalog.sink.transactional.transaction_ends import open_transactions
from tests.kafkalog.client.silent import silent_broker
from tests.spark_kafkalog.sink.transactional.committed import Sink
from tests.spark_kafkalog.topics import Topics


def test_a_batch_that_took_too_long_is_not_decided(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    # Half a second. The coordinator must not end the transaction meanwhile.
    monkeypatch.setattr(commit_driver, "SAFE_SHARE", 0.025)
    monkeypatch.setattr(commit_driver, "LEAST_SHARE", 0.025)
    options: dict[str, Any] = {"kafka.transaction.timeout.ms": 20_000}
    batch = sink.batch(0, **options)
    task = batch.task([b"a"])
    time.sleep(0.5)
    with pytest.raises(LateBatchError, match=r"too long to be committed safely within kafka.transaction.timeout.ms"):
        batch.commit(task)
    batch.abort(task)
    monkeypatch.undo()
    again = sink.batch(0)
    again.commit(again.task([b"b"]))
    assert sink.seen() == [b"b"]


@pytest.mark.parametrize(("step_s", "took_s", "late"), [(-3600, 850, True), (3600, 1, False)])
def test_a_clock_that_is_set_does_not_change_how_long_a_batch_took(
    topics: Topics, sink: Sink, step_s: float, took_s: float, late: bool
) -> None:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "kafka.transactional.id": sink.prefix}
    once = SinkOptions.parse(given).once
    assert once is not None
    claim = commit_driver.Driver(once, now=lambda: 1_700_000_000.0, elapsed=lambda: 100.0).claim()
    later = commit_driver.Driver(once, now=lambda: 1_700_000_000.0 + step_s, elapsed=lambda: 100.0 + took_s)
    with pytest.raises(LateBatchError) if late else nullcontext():
        later.commit(BatchWrote(claim, "query", []), 0)


def test_a_listing_that_takes_too_long_leaves_time_for_the_commits(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a broker that does not list transactions, neither the claim nor the commit fails."""

    def ask_silent_broker(cluster: Cluster, *given: Any) -> list[TaskTransaction]:
        with silent_broker() as config, Cluster(config) as other:
            return open_transactions(other, *given)

    monkeypatch.setattr(commit_driver, "open_transactions", ask_silent_broker)
    monkeypatch.setattr(commit_driver, "LISTING_S", 0.3)
    options: dict[str, Any] = {"kafka.max.block.ms": 10_000}
    batch = sink.batch(0, **options)
    batch.commit(batch.task([b"a"]))
    assert sink.seen() == [b"a"]


def test_brokers_are_not_asked_for_the_transactions_that_tasks_have_reported(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request for each of thousands would take the time in which those of other attempts are looked for."""
    asked: list[str] = []
    describe = transaction_ends._described

    def watched(coordinators: Coordinators, name: str, deadline: float) -> Iterator[TaskTransaction]:
        asked.append(name)
        return describe(coordinators, name, deadline)

    batch = sink.batch(0)
    tasks = []
    for _ in range(3):
        # Each in another Python worker.
        transactional_ids.OF_PROCESS.clear()
        tasks.append(batch.task([b"a"]))
    *chosen, other = tasks
    assert other.transaction is not None
    monkeypatch.setattr(transaction_ends, "_described", watched)
    batch.commit(*chosen)
    assert asked == [other.transaction.transactional_id]
    assert sink.seen() == [b"a"] * 2, "the other one was aborted, and is in nobody's way"


def test_the_decision_leaves_time_for_the_commits(topics: Topics, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transactions time out in 32 seconds, which is less than max.block.ms."""
    left: list[float] = []

    class Watched(Ledger):
        def write(self, record: Record) -> None:
            if record.state is State.DECIDED:
                left.append(self.deadline - time.monotonic())
            super().write(record)

    monkeypatch.setattr(commit_driver, "Ledger", Watched)
    given = {"kafka.bootstrap.servers": topics.bootstrap, "kafka.transactional.id": sink.prefix}
    once = SinkOptions.parse({**given, "kafka.transaction.timeout.ms": "60000"}).once
    assert once is not None
    claim = commit_driver.Driver(once, elapsed=lambda: 100.0).claim()
    commit_driver.Driver(once, elapsed=lambda: 128.0).commit(BatchWrote(claim, "query", []), 0)
    assert len(left) == 1
    assert left[0] <= 16.0


def test_a_batch_that_is_late_after_the_listing_is_not_decided(
    topics: Topics, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may stand still meanwhile, whatever deadline the listing has."""
    now = [100.0]

    def stand_still(*given: Any) -> list[TaskTransaction]:
        now[0] += 850
        return open_transactions(*given)

    given = {"kafka.bootstrap.servers": topics.bootstrap, "kafka.transactional.id": sink.prefix}
    once = SinkOptions.parse(given).once
    assert once is not None
    driver = commit_driver.Driver(once, elapsed=lambda: now[0])
    wrote = BatchWrote(driver.claim(), "query", [])
    monkeypatch.setattr(commit_driver, "open_transactions", stand_still)
    with pytest.raises(LateBatchError):
        driver.commit(wrote, 0)
    monkeypatch.undo()
    assert driver.claim().batch == -1, "no batch was decided"

"""Test histories of concurrent clients while the broker is killed: fifty seeds, and in the soak thousands.

A failing one says how to run it again: `python -m tests.history.scenario --seed N`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers import require
from peers.brokers import kafka
from tests.history import brokers
from tests.history.brokers import HistoryBroker
from tests.history.plan import BROKER, Act, plan
from tests.history.support import SOAK_COUNT, SOAK_FIRST, run_seeds
from tests.support.amount import mostly_exhaustive

SEEDS = 50
IN_A_TEST = 5
HAPPENS = ("send ok", "commit ok", "copied", "commit offset ok", "read ok", "broker kill")
"""Events that must have happened in a few seeds. Without them, the seeds prove nothing."""


@pytest.fixture(scope="module")
def history_broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryBroker]:
    """One broker for all seeds: killed in each, and each has its own topics."""
    broker = brokers.start("kafkalog", tmp_path_factory.mktemp("history") / "broker")
    yield broker
    broker.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", mostly_exhaustive(range(0, SEEDS, IN_A_TEST), 1))
def test_no_promise_is_broken(first: int, history_broker: HistoryBroker, tmp_path: Path) -> None:
    happened = run_seeds(first, IN_A_TEST, history_broker, tmp_path)
    assert [name for name in HAPPENS if not happened[name]] == []


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
def test_thousands_of_histories(history_broker: HistoryBroker, tmp_path: Path) -> None:
    run_seeds(SOAK_FIRST, SOAK_COUNT, history_broker, tmp_path)


@pytest.mark.soak
@pytest.mark.peer
@pytest.mark.timeout(3600)
def test_apache_kafka_breaks_no_promise_either(tmp_path: Path) -> None:
    """Proves the checker and the clients: what they say of the original."""
    require(kafka.missing(kafka.KAFKA_3))
    broker = brokers.start("apache", tmp_path / "broker")
    try:
        run_seeds(0, 20, broker, tmp_path, "apache")
    finally:
        broker.close()


def test_plans() -> None:
    plans = [plan(seed) for seed in range(200)]
    assert plans == [plan(seed) for seed in range(200)], "a seed is a plan"
    for each in plans:
        names = [client.name for client in each.clients]
        assert len(set(names)) == len(names)
        assert any(fault.target == BROKER for fault in each.faults)
        assert all(fault.target == BROKER or fault.target in names for fault in each.faults)
        assert all(0 < fault.after < each.records for fault in each.faults)
        assert sum(client.final for client in each.clients) == 2
    acts = Counter(fault.act for each in plans for fault in each.faults)
    assert set(acts) == set(Act) - {Act.STOP, Act.START}

"""Test histories of concurrent clients while brokers of a cluster are killed, paused, stopped and started again.

A failing one says how to run it again: `python -m tests.history.scenario --seed N --broker cluster`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers import require
from peers.toolchains import java
from tests.history import brokers
from tests.history.brokers import HistoryBroker
from tests.history.plan import BROKER, Act, plan
from tests.history.support import SOAK_COUNT, SOAK_FIRST, run_seeds
from tests.support.amount import mostly_exhaustive

SEEDS = (5, 1, 2)
"""Brokers are killed, paused and stopped in these, and clients as well."""
HAPPENS = ("send ok", "commit ok", "copied", "read ok")
"""Events without which a seed proves nothing. A group's member may hang before it commits."""


@pytest.fixture(scope="module")
def cluster(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryBroker]:
    """One cluster for all seeds. Each has its own topics, and leaves the cluster whole."""
    require(java.missing())
    running = brokers.start("cluster", tmp_path_factory.mktemp("cluster-history") / "brokers")
    yield running
    running.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", mostly_exhaustive(SEEDS, 1))
def test_no_promise_is_broken(seed: int, cluster: HistoryBroker, tmp_path: Path) -> None:
    happened = run_seeds(seed, 1, cluster, tmp_path, "cluster")
    assert [name for name in HAPPENS if not happened[name]] == []


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
def test_thousands_of_histories(cluster: HistoryBroker, tmp_path: Path) -> None:
    run_seeds(SOAK_FIRST, SOAK_COUNT, cluster, tmp_path, "cluster")


def test_plans() -> None:
    plans = [plan(seed, brokers=3) for seed in range(200)]
    acts: Counter[Act] = Counter()
    for each in plans:
        away: set[str] = set()
        for fault in each.faults:
            if fault.target.startswith(BROKER):
                acts[fault.act] += 1
                if fault.act in (Act.END, Act.FREEZE, Act.STOP):
                    assert not away, "two of three brokers are there"
                    away.add(fault.target)
                elif fault.act in (Act.START, Act.THAW):
                    away.remove(fault.target)
        assert not away, "all of them come back"
    assert set(acts) == set(Act)

"""Tests of the choice between the planner and tasks, by the times of batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_kafkalog.driver.pace import BATCHES, REST, Pace

Times = Callable[[bool], float]
"""The time of a batch that tasks read (True), or the planner (False)."""


def run(pace: Pace, count: int, times: Times) -> list[bool]:
    """Run batches; return which of them tasks have read."""
    found = []
    for _ in range(count):
        found.append(pace.wants_tasks)
        pace.took(times(found[-1]), by_tasks=found[-1])
    return found


def test_quick_batches_are_the_planners() -> None:
    pace = Pace()
    assert not any(run(pace, BATCHES - 1, lambda _: 5.0)), "the first ones of a query"
    assert not any(run(pace, 1, lambda _: 0.1))
    for _ in range(20):
        assert not any(run(pace, BATCHES - 1, lambda _: 5.0)), "now and then"
        assert not any(run(pace, 1, lambda _: 0.1))


@pytest.mark.parametrize("interval", [0.6, 1.0, 60.0])
def test_a_wait_for_the_next_trigger_is_not_the_rows(interval: float) -> None:
    """Whoever reads, Spark asks for the next offsets at the next trigger."""
    pace = Pace()
    first = [False] * BATCHES + [True] * BATCHES
    assert run(pace, 2 * BATCHES, lambda _: interval) == first
    assert run(pace, REST, lambda _: interval) == [False] * REST
    assert run(pace, BATCHES, lambda _: interval) == [True] * BATCHES, "compared again"
    assert not any(run(pace, REST, lambda _: interval))


def test_rows_that_take_long_are_left_to_tasks() -> None:
    pace = Pace()
    assert run(pace, BATCHES, lambda tasks: 1.0 if tasks else 2.0) == [False] * BATCHES
    assert all(run(pace, 3 * REST, lambda tasks: 1.0 if tasks else 2.0))


def test_tasks_that_win_nothing_leave_the_batches_to_the_planner() -> None:
    """The topic has one partition, or the output is slow."""
    pace = Pace()
    run(pace, 2 * BATCHES, lambda tasks: 2.1 if tasks else 2.0)
    assert not pace.wants_tasks


def test_a_query_that_comes_to_be_slow() -> None:
    pace = Pace()
    run(pace, 2 * BATCHES, lambda _: 1.0)
    later = run(pace, REST + 2 * BATCHES, lambda tasks: 1.0 if tasks else 3.0)
    assert later[-1]
    assert all(run(pace, REST, lambda _: 1.0))


def test_one_trigger_that_is_late_decides_nothing() -> None:
    """The next one comes early then."""
    pace = Pace()
    run(pace, BATCHES, lambda _: 1.0)
    late = iter([1.7, 0.3, 1.0, 1.0])
    assert all(run(pace, BATCHES, lambda _: next(late)))
    assert not pace.wants_tasks

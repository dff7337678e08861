"""Test when tasks commit, with times that are made up."""

from __future__ import annotations

import pytest

from kafkalog.mirror.copying.pace import PAUSE_FOR_DURATION, PAUSE_S, PAUSE_WHILE_BEHIND, Pace

NOW = 100.0


def test_what_is_read_to_its_end_is_committed_at_once() -> None:
    pace = Pace(1.0, eager=True, now=NOW)
    assert pace.next_at(ready=True) <= NOW
    assert pace.gather_until <= NOW


def test_what_is_behind_waits_for_the_interval() -> None:
    pace = Pace(1.0, eager=True, now=NOW)
    assert pace.next_at(ready=False) == NOW + 1.0
    pace.committed_all(NOW + 1.5)
    assert pace.next_at(ready=False) == NOW + 2.5


def test_after_a_quick_commit_the_pause_limits_how_many_there_are() -> None:
    pace = Pace(1.0, eager=True, now=NOW)
    pace.committed(NOW, NOW + 0.001, behind=False)
    assert pace.next_at(ready=True) == pytest.approx(NOW + 0.001 + PAUSE_S)
    # What comes meanwhile is sent together, when it can be committed.
    assert pace.gather_until == pace.next_at(ready=True)


def test_after_a_slow_commit_the_pause_is_longer() -> None:
    pace = Pace(10.0, eager=True, now=NOW)
    pace.committed(NOW, NOW + 0.3, behind=False)
    assert pace.next_at(ready=True) == pytest.approx(NOW + 0.3 + PAUSE_FOR_DURATION * 0.3)


def test_while_there_is_more_to_read_commits_take_a_small_part_of_the_time() -> None:
    pace = Pace(1.0, eager=True, now=NOW)
    pace.committed(NOW, NOW + 0.05, behind=True)
    assert pace.next_at(ready=True) == pytest.approx(NOW + 0.05 + PAUSE_WHILE_BEHIND * 0.05)


def test_the_pause_never_outlasts_the_interval() -> None:
    pace = Pace(1.0, eager=True, now=NOW)
    pace.committed(NOW, NOW + 0.9, behind=False)
    assert pace.next_at(ready=True) == NOW + 1.0


def test_commits_of_some_do_not_put_those_of_all_off() -> None:
    pace = Pace(1.0, eager=True, now=NOW)
    for number in range(20):
        pace.committed(NOW + number / 10, NOW + number / 10 + 0.01, behind=False)
    assert pace.next_at(ready=False) == NOW + 1.0


def test_with_intervals_alone_all_wait_for_them_and_nothing_is_held_back() -> None:
    pace = Pace(1.0, eager=False, now=NOW)
    assert pace.next_at(ready=True) == NOW + 1.0
    pace.committed(NOW + 1.0, NOW + 1.1, behind=False)
    pace.committed_all(NOW + 1.1)
    assert pace.next_at(ready=True) == pytest.approx(NOW + 2.1)
    assert pace.gather_until < NOW

"""Tests of pauses that grow."""

from __future__ import annotations

import pytest

from kafkalog.client.backoff import Backoff
from kafkalog.client.config import ClientConfig


def middles(backoff: Backoff, failures: int) -> list[float]:
    """Return the middle of the pauses after each number of failures."""
    found = []
    for count in range(failures):
        pauses = [backoff.pause(count) for _ in range(200)]
        assert max(pauses) < 1.5 * min(pauses)
        assert len(set(pauses)) > 1, "clients do not try at the same time"
        found.append(round((max(pauses) + min(pauses)) / 2, 1))
    return found


@pytest.mark.parametrize(
    ("steady", "pauses"), [(1, [1, 1, 2, 4, 8, 10, 10]), (3, [1, 1, 1, 1, 2, 4, 8])], ids=["at once", "later"]
)
def test_pauses_double_up_to_the_longest_one(steady: int, pauses: list[float]) -> None:
    assert middles(Backoff(1.0, 10.0, steady), len(pauses)) == pytest.approx(pauses, rel=0.05)


def test_the_longest_pause_holds_from_the_beginning_and_for_ever() -> None:
    assert Backoff(5.0, 1.0).pause(0) <= 1.2
    assert Backoff(1.0, 10.0).pause(1_000_000) <= 12.0


def test_the_pauses_of_a_client_are_its_properties() -> None:
    config = ClientConfig.from_dict({"retry.backoff.ms": 20, "retry.backoff.max.ms": 300})
    assert Backoff.of(config, steady=3) == Backoff(0.02, 0.3, 3)

"""Tests of pauses that grow."""

from __future__ import annotations

import pytest

from kafkalog.backoff import Backoff
from kafkalog.client.backoff import client_backoff
from kafkalog.client.config import ClientConfig


def computed(backoff: Backoff, failures: int) -> list[float]:
    """Return what the pauses after each number of failures are at most a fifth shorter than."""
    found = []
    for count in range(failures):
        pauses = [backoff.pause(count) for _ in range(200)]
        assert max(pauses) < 1.5 * min(pauses)
        assert len(set(pauses)) > 1, "clients do not try at the same time"
        found.append(round(min(pauses) / 0.8, 1))
    return found


@pytest.mark.parametrize(
    ("steady", "pauses"), [(1, [1, 1, 2, 4, 8, 10, 10]), (3, [1, 1, 1, 1, 2, 4, 8])], ids=["at once", "later"]
)
def test_pauses_double_up_to_the_longest_one(steady: int, pauses: list[float]) -> None:
    assert computed(Backoff(1.0, 10.0, steady), len(pauses)) == pytest.approx(pauses, rel=0.05)


def test_no_pause_exceeds_the_longest_one() -> None:
    """As with Java's ExponentialBackoff; where the first pause is as long, all are the same."""
    assert {Backoff(5.0, 1.0).pause(0), Backoff(1.0, 1.0).pause(3)} == {1.0}
    pauses = [Backoff(1.0, 10.0).pause(failures) for failures in (*range(200), 1_000_000)]
    assert max(pauses) == 10.0
    assert min(pauses) >= 0.8
    assert min(pauses[10:]) < 10.0


def test_the_pauses_of_a_client_are_its_properties() -> None:
    config = ClientConfig.from_dict({"retry.backoff.ms": 20, "retry.backoff.max.ms": 300})
    assert client_backoff(config, steady=3) == Backoff(0.02, 0.3, 3)

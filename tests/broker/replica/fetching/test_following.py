"""Test when a partition that could not be fetched is asked for again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.replica.fetching.following import FIRST_PAUSE_S, Following


@pytest.fixture
def following() -> Following:
    partition: Any = SimpleNamespace(log=SimpleNamespace(log_end_offset=7, latest_epoch=1))
    return Following(partition, epoch=1, offset=7, fetched_epoch=1, truncating=False)


def test_pauses_double_up_to_the_longest_and_begin_short_after_a_success(following: Following) -> None:
    pauses = []
    for now in range(6):
        following.delay(float(now), 0.5, "the leader answers UNKNOWN_LEADER_EPOCH")
        pauses.append(following.delayed_until - now)
    assert pauses == pytest.approx([FIRST_PAUSE_S, 0.1, 0.2, 0.4, 0.5, 0.5])
    following.caught(9)
    assert (following.lag, following.trouble) == (2, "")
    following.delay(10.0, 0.5, "the leader answers UNKNOWN_LEADER_EPOCH")
    assert following.delayed_until == 10 + FIRST_PAUSE_S


def test_a_pause_is_never_longer_than_the_longest_one(following: Following) -> None:
    following.delay(1.0, 0.01, "it is slow")
    assert following.delayed_until == 1.01

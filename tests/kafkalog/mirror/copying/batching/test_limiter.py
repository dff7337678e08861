"""Test the limit of bytes."""

from __future__ import annotations

from kafkalog.mirror.copying.batching.limiter import Limiter


def test_no_limit() -> None:
    assert Limiter(0, 0.0).take(1 << 40, 0.0) == 0.0


def test_a_second_worth_is_free_and_more_waits() -> None:
    limiter = Limiter(100, 0.0)
    assert limiter.take(100, 0.0) == 0.0
    assert limiter.take(50, 0.0) == 0.5
    assert limiter.take(50, 1.0) == 0.0
    # What was saved up is one second's worth at most.
    assert limiter.take(300, 1000.0) == 2.0

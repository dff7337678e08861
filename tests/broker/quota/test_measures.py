"""Test that usage measures give the same numbers as Kafka's own, and keep their properties."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.quota.entities import MAX_INT
from broker.quota.measures import Measure, Rate, TokenBucket, Window
from peers import require
from peers.brokers import kafka
from peers.toolchains import java

SOURCE = Path(__file__).with_name("Measure.java")
KINDS: dict[str, type[Rate | TokenBucket]] = {"rate": Rate, "bucket": TokenBucket}
SECOND = Window(11, 1000)
Uses = list[tuple[int, float]]


def _uses(chance: random.Random, span_ms: int) -> Uses:
    """Times that lie close together, a window apart, and so far apart that all before is forgotten; and amounts."""
    now, found = 1_700_000_000_000, []
    for _ in range(60):
        now += chance.choice((0, 1, chance.randrange(1000), chance.randrange(span_ms), chance.randrange(3 * span_ms)))
        found.append((now, float(chance.choice((0, 1, chance.randrange(100), chance.randrange(100_000))))))
    return found


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_numbers_as_kafka(kind: str) -> None:
    require(java.missing())
    require(kafka.missing(kafka.KAFKA_4))
    chance = random.Random(kind)
    cases = []
    for _ in range(200):
        window = Window(chance.choice((1, 2, 11, 30)), chance.choice((1, 2, 10)) * 1000)
        cases.append((window, chance.choice((0.5, 1.0, 10.0, 1000.0)), _uses(chance, window.span_ms)))
    lines = []
    for window, limit, uses in cases:
        lines.append(f"new {kind} {window.samples} {window.sample_ms // 1000} {limit}")
        lines += [f"{now} {amount}" for now, amount in uses]
    said = iter(
        java.run_java(kafka.kafka_classpath(kafka.KAFKA_4), str(SOURCE), stdin="\n".join(lines) + "\n").splitlines()
    )
    for window, limit, uses in cases:
        measure: Measure = KINDS[kind](window, 0)
        for now, amount in uses:
            wait_ms = measure.record(amount, limit, now)
            value, theirs_ms = next(said).split()
            assert measure.per_second(limit, now) == pytest.approx(float(value), rel=1e-9, abs=1e-6)
            assert abs(wait_ms - min(int(theirs_ms), MAX_INT)) <= 1
    assert next(said, None) is None


def test_a_first_burst_is_held_against_the_whole_span() -> None:
    rate = Rate(SECOND, 0)
    assert rate.record(10_000, 1000, 0) == 0
    assert rate.record(1, 1000, 0) > 0


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 5000)), min_size=1, max_size=200))
def test_who_waits_as_told_keeps_to_the_rate(uses: list[tuple[int, int]]) -> None:
    limit, now, used = 1000.0, 0, 0
    rate = Rate(SECOND, 0)
    for pause, amount in uses:
        used += amount
        now += pause + rate.record(amount, limit, now)
    # What is used at once after a pause of any length is that of the span at most, and one use may go beyond it.
    assert used <= limit * (now / 1000 + 11) + 5000


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 50)), min_size=1, max_size=200))
def test_tokens_that_are_owed_come_back(uses: list[tuple[int, int]]) -> None:
    limit, now, used = 2.0, 0, 0
    bucket = TokenBucket(SECOND, 0)
    for pause, amount in uses:
        now += pause
        if bucket.wait_ms(limit, now) == 0:
            bucket.record(amount, limit, now)
            used += amount
    assert used <= limit * (now / 1000 + 11) + 51
    assert bucket.wait_ms(limit, now + bucket.wait_ms(limit, now)) == 0


def test_looking_changes_nothing() -> None:
    for kind in KINDS.values():
        looked_at, other = kind(SECOND, 0), kind(SECOND, 0)
        for now in range(0, 40_000, 700):
            looked_at.per_second(5, now)
            looked_at.per_second(5, now + 9000)
            assert looked_at.record(7, 5, now) == other.record(7, 5, now)


def test_what_is_taken_back_was_never_used() -> None:
    rate = Rate(SECOND, 0)
    rate.record(5000, 1000, 0)
    assert rate.record(9000, 1000, 10) > 0
    rate.add(-9000, 10)
    assert rate.record(1, 1000, 20) == 0

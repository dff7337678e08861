"""Test that followers are in sync when Apache Kafka says so, and the invariants of any history of fetches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.replica.isr.rules import LONG_AGO_MS, FollowerState, high_watermark, may_join, out_of_sync

LAG_MS = 100
FETCHES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(0, 80)), max_size=25)
"""Milliseconds since the one before, records appended since then, offset of the fetch in percent of the log."""


def test_a_follower_that_fetches_at_the_end_has_caught_up_now() -> None:
    assert FollowerState().fetched(10, 0, 10, 500).last_caught_up_ms == 500


def test_a_follower_always_a_little_behind_has_caught_up_at_the_fetch_before() -> None:
    """Small batches that keep coming push nobody out of the ISR."""
    state = FollowerState()
    for now in range(0, 10 * LAG_MS, 10):
        state = state.fetched(now, 0, now + 10, now)
    assert state.last_caught_up_ms == 10 * LAG_MS - 20
    assert state.is_caught_up(10 * LAG_MS, 10 * LAG_MS, LAG_MS)


def test_a_follower_with_everything_is_in_sync_however_long_ago_it_fetched() -> None:
    state = FollowerState().fetched(10, 0, 10, 500)
    assert state.is_caught_up(10, 500 + 1000 * LAG_MS, LAG_MS)
    assert state.is_caught_up(11, 500 + LAG_MS, LAG_MS)
    assert not state.is_caught_up(11, 500 + LAG_MS + 1, LAG_MS)


def test_one_that_never_fetched_is_not_in_sync_on_a_clock_that_has_just_begun() -> None:
    assert not FollowerState().is_caught_up(1, 0, LAG_MS)
    assert out_of_sync({0, 1, 2}, 0, {1: FollowerState()}, 1, 0, LAG_MS) == {1, 2}


def test_the_time_before_an_election_counts_for_members_of_the_isr_only() -> None:
    before = FollowerState().fetched(10, 0, 10, 500)
    member = before.elected(12, 900, in_sync=True, again=True)
    assert (member.log_end_offset, member.last_caught_up_ms, member.last_fetch_leader_end) == (10, 900, 12)
    other = before.elected(12, 900, in_sync=False, again=True)
    assert (other.log_end_offset, other.last_caught_up_ms, other.last_fetch_ms) == (10, LONG_AGO_MS, LONG_AGO_MS)
    assert before.elected(12, 900, in_sync=True, again=False) == FollowerState(last_caught_up_ms=900)


def test_joining_needs_the_high_watermark_and_the_present_epoch() -> None:
    state = FollowerState().fetched(10, 0, 20, 1)
    assert may_join(state, 10, 10)
    assert not may_join(state, 11, 0)
    assert not may_join(state, 5, 11)


def test_a_follower_that_is_about_to_join_is_waited_for_if_it_is_alive() -> None:
    joining, slow = FollowerState().fetched(8, 0, 8, 1), FollowerState().fetched(2, 0, 8, 1)
    followers = {1: joining, 2: slow}
    assert high_watermark(10, followers, frozenset({0}), 2, LAG_MS) == 8
    assert high_watermark(10, followers, frozenset({0}), 2, LAG_MS, eligible=frozenset()) == 10
    assert high_watermark(10, followers, frozenset({0, 2}), 2, LAG_MS) == 2
    assert high_watermark(10, followers, frozenset({0}), 2 + LAG_MS, LAG_MS) == 10


@given(FETCHES)
def test_the_time_of_catching_up_is_right(fetches: list[tuple[int, int, int]]) -> None:
    """By the definition: the latest time at which the leader's log ended where the follower is by now, or before."""
    state, now, end = FollowerState(), 0, 0
    ends: list[tuple[int, int]] = []
    reached = LONG_AGO_MS
    for wait, appended, percent in fetches:
        now, end = now + wait, end + appended
        offset = end * percent // 80
        state = state.fetched(offset, 0, end, now)
        ends.append((now, end))
        known = [at for at, ended in ends[-2:] if offset >= max(e for t, e in ends if t <= at and e <= ended)]
        reached = max([reached, *known])
        assert state.last_caught_up_ms <= now
        assert state.last_caught_up_ms == reached
        assert (state.log_end_offset, state.last_fetch_leader_end) == (offset, end)
        in_sync = not out_of_sync({0, 1}, 0, {1: state}, end, now, LAG_MS)
        assert in_sync == (offset == end or now - reached <= LAG_MS)

"""Tests of the pure parts of the cleaner: what is cleaned, and when."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from broker.log.cleaner.cleaned_transactions import CleanedTransactions
from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.grouping import MOST_MEMBERS, SegmentSize, group
from broker.log.cleaner.selection import Cleanable, LogFacts, examine, filthiest
from broker.log.cleaner.throttle import Throttle
from kafkalog.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from kafkalog.storage.transaction_entries import AbortedTransaction

NOW = 1_700_000_000_000
MAX = (1 << 63) - 1


@dataclass
class Facts:
    base_offset: int
    size: int = 100
    timestamp: int = NOW

    def retention_timestamp(self) -> int:
        return self.timestamp + 10

    def first_timestamp(self) -> int:
        return self.timestamp


def facts(
    *segments: Facts,
    start: int = 0,
    end: int = 1000,
    stable: int = 1000,
    cleaned: int | None = None,
    ratio: float = 0.5,
    min_lag: int = 0,
    max_lag: int = MAX,
) -> LogFacts:
    return LogFacts(segments, start, end, stable, cleaned, ratio, min_lag, max_lag)


FOUR = (Facts(0), Facts(100), Facts(200), Facts(300))


def bounds(log: LogFacts) -> tuple[int, int]:
    found = examine(log, NOW)
    return found.first_dirty_offset, found.first_uncleanable_offset


def test_everything_but_the_active_segment_can_be_cleaned() -> None:
    assert bounds(facts(*FOUR)) == (0, 300)


def test_cleaning_goes_on_where_it_ended() -> None:
    found = examine(facts(*FOUR, cleaned=200), NOW)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (200, 300)
    assert (found.clean_bytes, found.cleanable_bytes, found.ratio) == (200, 100, 100 / 300)


def test_a_segment_that_is_half_clean_counts_as_both() -> None:
    found = examine(facts(*FOUR, cleaned=150), NOW)
    assert (found.clean_bytes, found.cleanable_bytes) == (200, 200)


@pytest.mark.parametrize(("stable", "bound"), [(1000, 300), (300, 300), (299, 200), (200, 200), (100, 100), (0, 0)])
def test_nothing_past_the_last_stable_offset_is_cleaned(stable: int, bound: int) -> None:
    assert bounds(facts(*FOUR, stable=stable)) == (0, bound)


@pytest.mark.parametrize(("age", "bound"), [(2000, 300), (990, 100), (1009, 100), (1010, 300), (0, 100)])
def test_what_is_young_is_not_cleaned(age: int, bound: int) -> None:
    segments = (Facts(0, timestamp=NOW - 9000), Facts(100, timestamp=NOW - age), Facts(200, timestamp=1), Facts(300))
    assert bounds(facts(*segments, min_lag=1000)) == (0, bound)


def test_the_age_of_what_is_clean_does_not_matter() -> None:
    segments = (Facts(0), Facts(100, timestamp=1), Facts(200))
    assert bounds(facts(*segments, cleaned=100, min_lag=1000)) == (100, 200)


@pytest.mark.parametrize("cleaned", [5, 1001])
def test_a_checkpoint_that_cannot_be_right_is_reset(cleaned: int) -> None:
    found = examine(facts(*FOUR, start=7, cleaned=cleaned), NOW)
    assert (found.first_dirty_offset, found.checkpoint_is_wrong) == (7, True)


def test_a_log_that_is_all_clean_has_nothing_to_clean() -> None:
    found = examine(facts(*FOUR, cleaned=300), NOW)
    assert (found.cleanable_bytes, found.is_due) == (0, False)
    assert not examine(facts(Facts(0, size=0)), NOW).is_due


@pytest.mark.parametrize(("ratio", "due"), [(0.0, True), (0.3, True), (1 / 3, False), (0.5, False)])
def test_a_log_is_due_when_its_dirty_share_is_above_the_ratio(ratio: float, due: bool) -> None:
    assert examine(facts(*FOUR, cleaned=200, ratio=ratio), NOW).is_due is due


@pytest.mark.parametrize(("age", "delay"), [(5000, 4000), (1001, 1), (1000, 0), (10, 0)])
def test_a_log_is_due_when_something_waits_longer_than_the_maximal_lag(age: int, delay: int) -> None:
    segments = (Facts(0), Facts(100, timestamp=NOW - age), Facts(200, timestamp=0), Facts(300))
    found = examine(facts(*segments, cleaned=100, ratio=1.0, max_lag=1000), NOW)
    assert (found.compaction_delay_ms, found.is_due) == (delay, delay > 0)


def cleanable(clean: int, dirty: int, *, ratio: float = 0.5, delay: int = 0) -> Cleanable:
    return Cleanable(0, 100, False, clean, dirty, delay, ratio)


def test_the_dirtiest_log_that_is_due_is_next() -> None:
    logs = [cleanable(50, 50), cleanable(30, 70), cleanable(10, 90, ratio=0.95), cleanable(40, 60)]
    assert filthiest(logs) == 1
    assert filthiest(logs[:1]) is None
    assert filthiest([]) is None
    assert filthiest([cleanable(90, 10, delay=5)]) == 0


# -- grouping


def sizes(*logs: int, step: int = 100, index: int = 8) -> list[SegmentSize]:
    return [SegmentSize(at * step, size, index, index) for at, size in enumerate(logs)]


def grouped(segments: list[SegmentSize], **limits: int) -> list[list[int]]:
    wanted = {"max_log_bytes": 1000, "max_index_bytes": 1000, "first_uncleanable_offset": 10**9, **limits}
    return [list(members) for members in group(segments, **wanted)]


def test_neighbours_are_put_together_up_to_the_size_of_a_segment() -> None:
    assert grouped(sizes(400, 400, 200, 1, 1000, 999, 1)) == [[0, 1, 2], [3], [4], [5, 6]]
    assert grouped(sizes(5000, 1)) == [[0], [1]]
    assert grouped([]) == []


def test_a_turn_of_the_loop_replaces_no_more_than_so_many() -> None:
    groups = grouped(sizes(*[0] * 1000))
    assert [member for group in groups for member in group] == list(range(1000))
    assert max(map(len, groups)) == MOST_MEMBERS
    assert len(groups) == -(-1000 // MOST_MEMBERS)
    assert grouped(sizes(*[0] * MOST_MEMBERS)) == [list(range(MOST_MEMBERS))]


def test_indexes_bound_a_group_too() -> None:
    assert grouped(sizes(1, 1, 1, index=400)) == [[0, 1], [2]]
    rows = [SegmentSize(at, 1, 1, 600) for at in range(2)]
    assert grouped(rows) == [[0], [1]]


def test_offsets_of_a_group_stay_relative_to_its_first() -> None:
    step = 1 << 30
    # The third ends 3 * 2**30 - 1 after the first begins.
    assert grouped(sizes(1, 1, 1, 1, step=step), first_uncleanable_offset=4 * step) == [[0, 1], [2, 3]]
    assert grouped(sizes(1, 1, step=(1 << 31) - 1), first_uncleanable_offset=1 << 31) == [[0, 1]]
    assert grouped(sizes(1, 1, step=(1 << 31) - 1), first_uncleanable_offset=(1 << 31) + 1) == [[0], [1]]
    # One without batches holds no offset that could be too far.
    assert grouped(sizes(1, 0, step=1 << 31), first_uncleanable_offset=1 << 33) == [[0, 1]]


# -- transactions


def header(offset: int, producer: int, flags: int = TRANSACTIONAL_FLAG, count: int = 1) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, flags, 0, NOW, NOW, producer, 0, 0, count)


def control(offset: int, producer: int, count: int = 1) -> BatchHeader:
    return header(offset, producer, TRANSACTIONAL_FLAG | CONTROL_FLAG, count)


def test_an_abort_marker_stays_while_records_of_its_transaction_are_met() -> None:
    transactions = CleanedTransactions()
    row = AbortedTransaction(7, 10, 20, 21)
    transactions.add_aborted([row, row])
    assert not transactions.on_batch(header(5, 7))
    assert transactions.on_batch(header(10, 7))
    assert not transactions.on_batch(header(11, 8))
    assert not transactions.on_batch(header(12, 7, flags=0))
    assert not transactions.on_marker(control(20, 7), True)
    assert transactions.kept == [row]
    assert not transactions.on_batch(header(25, 7))


def test_markers_without_records_may_go() -> None:
    transactions = CleanedTransactions()
    transactions.add_aborted([AbortedTransaction(7, 10, 20, 21)])
    assert transactions.on_marker(control(20, 7), True)
    assert transactions.kept == []
    assert transactions.on_marker(control(30, 8), False)
    assert not transactions.on_batch(header(31, 8))
    assert not transactions.on_marker(control(32, 8), False)
    assert transactions.on_marker(control(33, 8), False)
    # Once more emptied, and of a kind that is none of ours.
    assert transactions.on_marker(control(34, 8, count=0), None)
    assert not transactions.on_marker(control(35, 8), None)


# -- the rate


def test_the_rate_holds_over_an_interval() -> None:
    now = [100.0]
    throttle = Throttle(1000.0, clock=lambda: now[0])
    assert throttle.delay(300) == 0
    now[0] += 0.4
    assert throttle.delay(200) == pytest.approx(0.1)
    now[0] += 0.1
    # No more than an interval's worth at once, from its beginning on.
    assert throttle.delay(300) == 0
    assert throttle.delay(300) == pytest.approx(0.6)
    now[0] += 1.6
    assert throttle.delay(100) == 0
    throttle.rate = 1.7976931348623157e308
    now[0] += 1.0
    assert throttle.delay(1 << 40) == 0


# -- the settings


def test_memory_is_shared_by_the_threads() -> None:
    config = CleanerConfig(threads=4, dedupe_buffer_size=64 << 20, io_buffer_size=512 << 10)
    assert (config.map_bytes, config.buffer_bytes) == (16 << 20, 64 << 10)
    assert CleanerConfig(dedupe_buffer_size=1 << 40).map_bytes == (1 << 31) - 1


@pytest.mark.parametrize(("threads", "memory", "enabled", "bad"), [
    (1, (1 << 20) + 1, True, False), (1, 1 << 20, True, True), (4, 4 << 20, True, True), (4, 1, False, False),
])  # fmt: skip
def test_a_thread_needs_a_megabyte(threads: int, memory: int, enabled: bool, bad: bool) -> None:
    fault = CleanerConfig(threads=threads, dedupe_buffer_size=memory, enabled=enabled).fault()
    assert (fault is not None) is bad


@pytest.mark.parametrize(("before", "after", "said"), [
    (1, 2, None), (2, 1, None), (4, 8, None), (4, 2, None), (4, 9, "more than double"), (4, 1, "less than half"),
    (1, 0, "at least 1"),
])  # fmt: skip
def test_threads_change_by_a_factor_of_two_at_most(before: int, after: int, said: str | None) -> None:
    fault = CleanerConfig(threads=before).fault_of_change(CleanerConfig(threads=after))
    assert fault is None if said is None else said in (fault or "")

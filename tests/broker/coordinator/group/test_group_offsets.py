"""Tests of a group's committed offsets: plain, in transactions, and loaded after a crash at any point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group import offsets as group_offsets
from broker.coordinator.group import records
from broker.coordinator.group.membership import Retention
from broker.coordinator.group.offsets import Committed, GroupOffsets, Offsets, OffsetsView, tombstones
from broker.coordinator.group.replay import Reader, Replay
from broker.coordinator.state_log import StateBatch, StateRecord
from kafkalog.protocol.coordinator_records import GroupMetadataValue, OffsetCommitValue
from kafkalog.records.batch import Record
from kafkalog.records.control import ControlRecordType

T0, T1 = ("t", 0), ("t", 1)
HOUR_MS = 3_600_000


def at(offset: int, timestamp: int = 0, **fields: Any) -> Committed:
    return Committed(offset, -1, "", timestamp, **fields)


def values(offsets: Offsets) -> dict[tuple[str, int], int]:
    return {partition: committed.offset for partition, committed in offsets.items()}


class Log:
    """Batches as they would be appended to a partition."""

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        self.end = 0

    def append(self, stored: list[StateRecord], producer_id: int = -1) -> int:
        """The last offset."""
        batch = [Record(self.end + number, 0, *record) for number, record in enumerate(stored)]
        first, self.end = self.end, self.end + len(batch)
        self.batches.append(StateBatch(first, self.end - 1, producer_id, 0, producer_id >= 0, None, batch))
        return self.end - 1

    def mark(self, producer_id: int, committed: bool) -> None:
        kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
        self.batches.append(StateBatch(self.end, self.end, producer_id, 0, True, kind, []))
        self.end += 1

    def replayed(self, readers: Mapping[int, Reader] | None = None) -> Replay:
        result = Replay(readers or {})
        result.apply(self.batches)
        result.finish()
        return result


def test_an_offset_counts_once_it_is_replicated() -> None:
    offsets = GroupOffsets()
    offsets.appended({T0: at(5, stored_at=0)}, 0)
    assert offsets.is_unstable(T0)
    assert not offsets.committed
    assert not offsets.is_empty
    offsets.replicated(0)
    assert values(offsets.committed) == {T0: 5}
    assert not offsets.is_unstable(T0)


def test_of_two_commits_under_way_the_later_one_in_the_log_holds() -> None:
    offsets = GroupOffsets()
    offsets.appended({T0: at(5, stored_at=0)}, 0)
    offsets.appended({T0: at(6, stored_at=1)}, 1)
    offsets.replicated(1)
    assert offsets.is_unstable(T0)
    offsets.replicated(0)
    assert values(offsets.committed) == {T0: 6}


def test_a_commit_that_was_removed_under_way_does_not_hold() -> None:
    offsets = GroupOffsets()
    offsets.appended({T0: at(5, stored_at=0)}, 0)
    offsets.remove([T0])
    offsets.appended({T0: at(6, stored_at=2)}, 2)
    offsets.replicated(0)
    assert not offsets.committed
    assert offsets.is_unstable(T0)
    offsets.replicated(2)
    assert values(offsets.committed) == {T0: 6}
    assert not offsets.is_unstable(T0)


def test_offsets_of_a_transaction_wait_for_its_marker() -> None:
    offsets = GroupOffsets()
    offsets.appended_transactional(1, {T0: at(10, stored_at=1)})
    offsets.appended_transactional(2, {T0: at(20, stored_at=2)})
    assert offsets.is_unstable(T0)
    offsets.decided(2, committed=True, marked_at=3)
    assert not offsets.committed
    offsets.replicated(3)
    assert values(offsets.committed) == {T0: 20}
    # It was stored before what holds now.
    offsets.decided(1, committed=True, marked_at=4)
    offsets.replicated(4)
    assert values(offsets.committed) == {T0: 20}
    offsets.appended_transactional(3, {T0: at(30, stored_at=5)})
    offsets.decided(3, committed=False, marked_at=6)
    assert offsets.is_unstable(T0)
    offsets.replicated(6)
    assert values(offsets.committed) == {T0: 20}
    assert not offsets.is_unstable(T0)


def test_what_a_producer_commits_after_its_marker_belongs_to_the_next_transaction() -> None:
    offsets = GroupOffsets()
    offsets.appended_transactional(1, {T0: at(10, stored_at=0)})
    offsets.decided(1, committed=True, marked_at=1)
    offsets.appended_transactional(1, {T0: at(20, stored_at=2)})
    offsets.replicated(1)
    assert values(offsets.committed) == {T0: 10}
    assert offsets.is_unstable(T0)
    offsets.decided(1, committed=False, marked_at=3)
    offsets.replicated(3)
    assert values(offsets.committed) == {T0: 10}


def test_offsets_of_a_large_transaction_count_at_once_and_are_merged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "MERGED_AT_ONCE", 1)
    partitions = [("t", index) for index in range(4)]
    offsets = GroupOffsets()
    offsets.appended_transactional(1, {each: at(10, stored_at=each[1]) for each in partitions})
    offsets.appended({T1: at(20, stored_at=4)}, 4)
    offsets.replicated(4)
    offsets.decided(1, committed=True, marked_at=5)
    assert all(offsets.is_unstable(each) for each in partitions)
    offsets.replicated(5)
    expected = {each: 20 if each == T1 else 10 for each in partitions}

    def found(view: OffsetsView) -> dict[tuple[str, int], int]:
        committed = {each: view[each][0] for each in partitions}
        return {each: offset.offset for each, offset in committed.items() if offset is not None}

    view = OffsetsView(offsets, require_stable=True)
    frozen = OffsetsView(offsets)
    frozen.freeze()
    rounds = 0
    while offsets.is_merging:
        assert found(view) == expected
        assert sorted(offsets.partitions()) == sorted(offsets.known()) == partitions
        offsets.merge()
        rounds += 1
    assert rounds == 3
    assert values(offsets.committed) == expected
    offsets.remove(partitions)
    assert offsets.is_empty
    assert found(frozen) == expected
    assert sorted(frozen.partitions()) == partitions


def test_removed_offsets_are_gone_also_those_under_way() -> None:
    offsets = GroupOffsets()
    offsets.appended({T0: at(1, stored_at=0)}, 0)
    offsets.replicated(0)
    offsets.appended({T1: at(3, stored_at=1)}, 1)
    offsets.appended_transactional(1, {T1: at(7, stored_at=2)})
    assert offsets.known() == {T0, T1}
    offsets.remove([T0, T1, ("t", 9)])
    offsets.appended({T1: at(8, stored_at=6)}, 6)
    offsets.replicated(1)
    assert not offsets.committed
    offsets.decided(1, committed=True, marked_at=7)
    offsets.replicated(7)
    assert not offsets.committed
    offsets.replicated(6)
    assert values(offsets.committed) == {T1: 8}
    offsets.remove([T1])
    assert offsets.is_empty


@pytest.mark.parametrize(
    ("retention", "expired"),
    [
        # Of a group without members: all at once.
        (Retention(since=0), [T0, ("u", 0), ("v", 0)]),
        (Retention(since=HOUR_MS), [("v", 0)]),
        # Each from when it was committed.
        (Retention(since=None), [T0, ("v", 0)]),
        (Retention(since=None, kept=frozenset({"t", "v"})), []),
    ],
)
def test_offsets_expire(retention: Retention, expired: list[tuple[str, int]]) -> None:
    offsets = GroupOffsets()
    offsets.committed = {T0: at(1, 0), ("u", 0): at(2, HOUR_MS), ("v", 0): at(3, HOUR_MS, expires=2 * HOUR_MS)}
    assert offsets.expired(retention, 2 * HOUR_MS, 2 * HOUR_MS, list(offsets.committed)) == expired
    offsets.appended({T0: at(2)}, 0)
    assert T0 not in offsets.expired(retention, 2 * HOUR_MS, 2 * HOUR_MS, list(offsets.committed))
    offsets.appended_transactional(1, {("v", 0): at(4)})
    assert ("v", 0) not in offsets.expired(retention, 2 * HOUR_MS, 2 * HOUR_MS, list(offsets.committed))


def test_what_was_removed_does_not_come_back_with_its_transaction() -> None:
    log = Log()
    log.append([at(7).record("g", T0)], 1)
    log.append(tombstones("g", [T0]))
    log.mark(1, committed=True)
    assert log.replayed().offsets == {}


def test_a_retention_named_by_the_client_is_stored() -> None:
    record = at(1, 5, expires=77).record("g", T0)
    assert record.value is not None
    assert records.version_of(record.value) == 1
    value = records.decode_versioned(OffsetCommitValue, record.value)
    assert Committed.of(value, 3) == at(1, 5, expires=77, stored_at=3)


PARTITIONS = st.sets(st.sampled_from([T0, T1]), min_size=1).map(sorted)
PRODUCERS = st.sampled_from([1, 2])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), PARTITIONS),
        st.tuples(st.just("transactional"), PARTITIONS, PRODUCERS),
        st.tuples(st.just("marker"), PRODUCERS, st.booleans()),
        st.tuples(st.just("remove"), PARTITIONS),
        # Appends are told to be replicated in any order: which of those that are not yet.
        st.tuples(st.just("replicated"), st.integers(0, 100)),
        st.tuples(st.just("merge")),
    ),
    max_size=25,
)


def placed(log: Log, number: int, partitions: list[tuple[str, int]]) -> Offsets:
    """Offsets where they are about to be appended."""
    return {partition: at(number, stored_at=log.end + place) for place, partition in enumerate(partitions)}


@given(STEPS)
def test_in_any_order_of_replication_the_log_says_the_same(steps: list[tuple[Any, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_offsets, "MERGED_AT_ONCE", 1)
        compare_with_the_log(steps)


def compare_with_the_log(steps: list[tuple[Any, ...]]) -> None:
    offsets, log = GroupOffsets(), Log()
    waiting: list[int] = []
    for number, (step, *more) in enumerate(steps):
        if step in ("commit", "transactional"):
            offset = placed(log, number, more[0])
            stored = [committed.record("g", partition) for partition, committed in offset.items()]
            last = log.append(stored, more[1] if step == "transactional" else -1)
            if step == "commit":
                offsets.appended(offset, last)
                waiting.append(last)
            else:
                offsets.appended_transactional(more[1], offset)
        elif step == "marker":
            log.mark(*more)
            offsets.decided(more[0], more[1], log.end - 1)
            waiting.append(log.end - 1)
        elif step == "remove":
            log.append(tombstones("g", more[0]))
            offsets.remove(more[0])
        elif step == "merge":
            offsets.merge()
        elif waiting:
            offsets.replicated(waiting.pop(more[0] % len(waiting)))
        found = log.replayed().offsets.get("g", GroupOffsets())
        assert found.transactions == {key: value for key, value in offsets.transactions.items() if value}
        for partition in (T0, T1):
            # What is told as stable is what a reload would tell.
            if not offsets.is_unstable(partition):
                assert offsets.get(partition) == found.committed.get(partition)
        if not waiting:
            assert found.committed == {partition: offsets.get(partition) for partition in offsets.partitions()}
            assert found.is_empty == offsets.is_empty


# -- what the log says


def test_the_last_record_of_a_group_holds() -> None:
    log = Log()
    key = records.group_metadata_key("g")
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader=None)
    log.append([StateRecord(key, records.group_metadata_value(value))])
    value.generation = 2
    log.append([StateRecord(key, records.group_metadata_value(value))])
    log.append([at(4).record("simple", T0)])
    found = log.replayed()
    assert found.classic["g"].generation == 2
    assert found.group_ids() == {"g", "simple"}
    log.append([StateRecord(key, None), *tombstones("simple", [T0])])
    assert log.replayed().group_ids() == set()


def test_unknown_types_are_counted_and_those_with_a_reader_are_read() -> None:
    log = Log()
    log.append([StateRecord(b"\x7f\x01key", b"value"), StateRecord(b"\x7f\x01key", None)])
    assert log.replayed().unknown == {0x7F01: 2}

    def read(target: Replay, key: bytes, value: bytes | None) -> None:
        target.others["g"] = (key, value)

    found = log.replayed({0x7F01: read})
    assert found.others == {"g": (b"\x7f\x01key", None)}
    assert not found.unknown


def test_a_record_that_is_not_what_its_key_says_is_refused() -> None:
    log = Log()
    log.append([StateRecord(records.offset_commit_key("g", *T0), b"\x00\x03short")])
    with pytest.raises(records.UnreadableRecordError):
        log.replayed()

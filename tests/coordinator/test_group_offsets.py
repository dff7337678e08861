"""What a group has committed: plainly, in transactions, and what the log says of it after a crash at any point."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group import records, replay
from broker.coordinator.group.membership import Retention
from broker.coordinator.group.offsets import Committed, GroupOffsets, Offsets, tombstones
from broker.coordinator.group.replay import Replay
from broker.coordinator.state_log import StateBatch, StateRecord
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

    def replayed(self) -> Replay:
        result = Replay()
        result.apply(self.batches)
        result.finish()
        return result


def test_an_offset_counts_once_it_is_stored() -> None:
    offsets = GroupOffsets()
    offsets.begin([T0])
    assert offsets.is_unstable(T0)
    assert not offsets.committed
    assert not offsets.is_empty
    offsets.stored({T0: at(5)}, 0)
    assert values(offsets.committed) == {T0: 5}
    assert not offsets.is_unstable(T0)
    offsets.begin([T0])
    offsets.failed([T0])
    assert values(offsets.committed) == {T0: 5}
    assert not offsets.is_unstable(T0)


def test_of_two_commits_under_way_the_later_one_in_the_log_holds() -> None:
    offsets = GroupOffsets()
    offsets.begin([T0])
    offsets.begin([T0])
    offsets.stored({T0: at(6)}, 1)
    assert offsets.is_unstable(T0)
    offsets.stored({T0: at(5)}, 0)
    assert values(offsets.committed) == {T0: 6}


def test_offsets_of_a_transaction_wait_for_its_marker() -> None:
    offsets = GroupOffsets()
    for producer, offset in ((1, at(10)), (2, at(20))):
        offsets.begin_transactional(producer, {T0: offset})
        offsets.stored_transactional(producer, {T0: offset}, producer)
    assert offsets.is_unstable(T0)
    offsets.complete(2, committed=True)
    assert values(offsets.committed) == {T0: 20}
    # It was stored before what holds now.
    offsets.complete(1, committed=True)
    assert values(offsets.committed) == {T0: 20}
    offsets.begin_transactional(3, {T0: at(30)})
    offsets.complete(3, committed=False)
    assert values(offsets.committed) == {T0: 20}
    assert not offsets.is_unstable(T0)


def test_what_could_not_be_stored_of_a_transaction_is_not_committed_by_it() -> None:
    offsets = GroupOffsets()
    good, bad = {T0: at(1)}, {T1: at(2)}
    offsets.begin_transactional(1, good)
    offsets.stored_transactional(1, good, 0)
    offsets.begin_transactional(1, bad)
    offsets.failed_transactional(1, bad)
    offsets.complete(1, committed=True)
    assert values(offsets.committed) == {T0: 1}


def test_removed_offsets_are_gone_also_those_under_way() -> None:
    offsets = GroupOffsets()
    offsets.begin([T0, T1])
    offsets.stored({T0: at(1)}, 0)
    offsets.begin_transactional(1, {T1: at(7)})
    assert offsets.of_topic("t") == [T0, T1]
    assert offsets.of_topic("other") == []
    assert offsets.remove([T0, T1, ("t", 9)]) == [T0, T1]
    offsets.stored({T1: at(3)}, 5)
    offsets.complete(1, committed=True)
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
    assert offsets.expired(retention, 2 * HOUR_MS, 2 * HOUR_MS) == expired
    offsets.begin([T0])
    assert T0 not in offsets.expired(retention, 2 * HOUR_MS, 2 * HOUR_MS)
    offsets.begin_transactional(1, {("v", 0): at(4)})
    assert ("v", 0) not in offsets.expired(retention, 2 * HOUR_MS, 2 * HOUR_MS)


def test_what_was_removed_does_not_come_back_with_its_transaction() -> None:
    offsets, log = GroupOffsets(), Log()
    stored = {T0: at(7)}
    offsets.begin_transactional(1, stored)
    offsets.stored_transactional(1, stored, log.append([at(7).record("g", T0)], 1))
    removed = offsets.remove_all()
    assert removed == [T0]
    log.append(tombstones("g", removed))
    log.mark(1, committed=True)
    assert log.replayed().offsets == {}


def test_a_retention_named_by_the_client_is_stored() -> None:
    record = at(1, 5, expires=77).record("g", T0)
    assert record.value is not None
    assert records.version_of(record.value) == 1
    value = records.decode_versioned(records.OffsetCommitValue, record.value)
    assert Committed.of(value, 3) == at(1, 5, expires=77, stored_at=3)


PARTITIONS = st.sampled_from([T0, T1])
PRODUCERS = st.sampled_from([1, 2])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), PARTITIONS),
        st.tuples(st.just("transactional"), PARTITIONS, PRODUCERS),
        st.tuples(st.just("marker"), PRODUCERS, st.booleans()),
        st.tuples(st.just("remove"), PARTITIONS),
    ),
    max_size=25,
)


@given(STEPS)
def test_after_a_crash_the_log_says_the_same(steps: list[tuple[Any, ...]]) -> None:
    offsets, log = GroupOffsets(), Log()
    for number, (step, *more) in enumerate(steps):
        offset = {more[0]: at(number)} if step in ("commit", "transactional") else {}
        stored = [committed.record("g", partition) for partition, committed in offset.items()]
        if step == "commit":
            offsets.begin(offset)
            offsets.stored(offset, log.append(stored))
        elif step == "transactional":
            offsets.begin_transactional(more[1], offset)
            offsets.stored_transactional(more[1], offset, log.append(stored, more[1]))
        elif step == "marker":
            log.mark(*more)
            offsets.complete(*more)
        else:
            gone = offsets.remove([more[0]])
            if gone:
                log.append(tombstones("g", gone))
        found = log.replayed().offsets.get("g", GroupOffsets())
        assert found.committed == offsets.committed
        assert found.transactions == {key: value for key, value in offsets.transactions.items() if value}


# -- what the log says


def test_the_last_record_of_a_group_holds() -> None:
    log = Log()
    key = records.group_metadata_key("g")
    value = records.GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader=None)
    log.append([StateRecord(key, records.group_metadata_value(value))])
    value.generation = 2
    log.append([StateRecord(key, records.group_metadata_value(value))])
    log.append([at(4).record("simple", T0)])
    found = log.replayed()
    assert found.classic["g"].generation == 2
    assert found.group_ids() == {"g", "simple"}
    log.append([StateRecord(key, None), *tombstones("simple", [T0])])
    assert log.replayed().group_ids() == set()


def test_unknown_types_are_counted_and_registered_ones_are_read() -> None:
    log = Log()
    log.append([StateRecord(b"\x7f\x01key", b"value"), StateRecord(b"\x7f\x01key", None)])
    assert log.replayed().unknown == {0x7F01: 2}

    def read(target: Replay, key: bytes, value: bytes | None) -> None:
        target.others["g"] = (key, value)

    replay.register([0x7F01], read)
    try:
        found = log.replayed()
    finally:
        replay._readers.pop(0x7F01)
    assert found.others == {"g": (b"\x7f\x01key", None)}
    assert not found.unknown


def test_a_record_that_is_not_what_its_key_says_is_refused() -> None:
    log = Log()
    log.append([StateRecord(records.offset_commit_key("g", *T0), b"\x00\x03short")])
    with pytest.raises(records.UnreadableRecordError):
        log.replayed()

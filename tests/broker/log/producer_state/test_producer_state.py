"""Tests of producer state: sequence rules, duplicates, epochs, expiry, transactions, snapshots in Kafka's bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.index.transaction_index import TransactionIndex
from broker.log.producer_state import producer_snapshots, producer_state_manager
from broker.log.producer_state.producer_entry import SEQUENCE_MASK, ProducerEntry
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from kafkalog.protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from kafkalog.storage.snapshots import CorruptSnapshotError, SnapshotEntry, decode, encode
from kafkalog.storage.transaction_entries import AbortedTransaction

DAY = 86_400_000


class Producer:
    """Appends through a manager as a log does: checks, then updates."""

    def __init__(self, manager: ProducerStateManager, producer_id: int = 9) -> None:
        self.manager = manager
        self.id = producer_id

    def append(
        self, sequence: int, count: int = 1, *, epoch: int = 0, timestamp: int = 1, transactional: bool = False
    ) -> tuple[int, int] | None:
        last = (sequence + count - 1) & SEQUENCE_MASK
        duplicate = self.manager.check(self.id, epoch, sequence, last, transactional=transactional)
        if duplicate is not None:
            return duplicate.first_offset, duplicate.last_offset
        first = self.manager.end_offset
        self.manager.update(self.id, epoch, last, first, first + count - 1, timestamp, transactional)
        self.manager.end_offset = first + count
        return None


@pytest.fixture
def manager(tmp_path: Path) -> ProducerStateManager:
    return ProducerStateManager(str(tmp_path), DAY)


@pytest.fixture
def producer(manager: ProducerStateManager) -> Producer:
    return Producer(manager)


def test_sequences_must_follow(producer: Producer) -> None:
    assert producer.append(0, 3) is None
    assert producer.append(3) is None
    for wrong in (5, 2, 100):
        with pytest.raises(OutOfOrderSequenceNumberError, match=f"{wrong} .incoming seq. number., 3 "):
            producer.append(wrong, 2)


def test_the_last_five_batches_are_recognised(producer: Producer) -> None:
    for i in range(7):
        producer.append(i * 10, 10)
    for i in range(2, 7):
        assert producer.append(i * 10, 10) == (i * 10, i * 10 + 9)
    for i in range(2):
        with pytest.raises(OutOfOrderSequenceNumberError):
            producer.append(i * 10, 10)
    # A part of a batch is not that batch.
    with pytest.raises(OutOfOrderSequenceNumberError):
        producer.append(60, 5)


def test_sequences_wrap_around(producer: Producer) -> None:
    assert producer.append(SEQUENCE_MASK - 1, 4) is None
    assert producer.append(2, 1) is None
    assert producer.append(SEQUENCE_MASK - 1, 4) == (0, 3)
    other = Producer(producer.manager, 10)
    other.append(SEQUENCE_MASK, 1)
    with pytest.raises(OutOfOrderSequenceNumberError):
        other.append(1)
    assert other.append(0) is None


def test_an_unknown_producer_may_begin_anywhere(producer: Producer) -> None:
    assert producer.append(4711) is None


def test_an_unknown_producer_may_not_begin_behind_a_batch_that_it_has_to_send_again(producer: Producer) -> None:
    manager = producer.manager
    for sequence in (4, 3, 5):
        manager.note_unverified(producer.id, 0, sequence, 1)
    with pytest.raises(OutOfOrderSequenceNumberError, match=r"4 \(incoming seq. number\), 3 \(earliest seen"):
        producer.append(4, transactional=True)
    assert producer.append(3, transactional=True) is None
    assert producer.append(4, transactional=True) is None


@pytest.mark.parametrize("what", ["another epoch", "a marker", "expired", "too many"])
def test_a_batch_that_is_to_be_sent_again_is_not_waited_for_for_ever(
    producer: Producer, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = producer.manager
    monkeypatch.setattr(producer_state_manager, "MOST_UNVERIFIED", 2)
    manager.note_unverified(producer.id, 0, 3, 1)
    manager.remove_expired(DAY)
    with pytest.raises(OutOfOrderSequenceNumberError):
        producer.append(4)
    if what == "another epoch":
        manager.note_unverified(producer.id, 1, 7, 1)
        manager.note_unverified(producer.id, 0, 2, 1)
    elif what == "a marker":
        manager.complete(producer.id, 0, 0, 0, DAY, aborted=True)
        manager.remove_expired(2 * DAY)
    elif what == "expired":
        manager.remove_expired(DAY + 1)
    else:
        for other in (100, 101):
            manager.note_unverified(other, 0, 3, 1)
    assert producer.append(4) is None


def test_epochs_fence(producer: Producer) -> None:
    producer.append(0, 5, epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        producer.append(5, epoch=2)
    with pytest.raises(OutOfOrderSequenceNumberError, match="new epoch"):
        producer.append(5, epoch=4)
    assert producer.append(0, epoch=4) is None
    # The batch of the old epoch is no longer a duplicate but fenced.
    with pytest.raises(InvalidProducerEpochError):
        producer.append(0, 5, epoch=3)


def test_silent_producers_expire(manager: ProducerStateManager) -> None:
    Producer(manager, 1).append(0, timestamp=1000)
    Producer(manager, 2).append(0, timestamp=2000)
    Producer(manager, 3).append(0, timestamp=1000, transactional=True)
    assert manager.remove_expired(1000 + DAY) == 1
    assert sorted(manager.producers) == [2, 3]


def test_transactions_bound_the_stable_offset(manager: ProducerStateManager) -> None:
    one, two = Producer(manager, 1), Producer(manager, 2)
    one.append(0, 5)
    assert manager.first_unstable_offset is None
    one.append(5, 5, transactional=True)
    two.append(0, 5, transactional=True)
    assert manager.first_unstable_offset == 5
    with pytest.raises(InvalidTxnStateError):
        one.append(10)
    assert manager.complete(1, 0, 7, 15, 99, aborted=True) == AbortedTransaction(1, 5, 15, 10)
    # Decided, but the marker is not below the high watermark yet.
    assert manager.first_unstable_offset == 5
    manager.on_high_watermark(15)
    assert manager.first_unstable_offset == 5
    manager.on_high_watermark(16)
    assert manager.first_unstable_offset == 10
    assert manager.complete(2, 0, 7, 16, 99, aborted=False) is None
    manager.on_high_watermark(17)
    assert manager.first_unstable_offset is None
    with pytest.raises(TransactionCoordinatorFencedError):
        manager.check_marker(1, 0, 6)
    with pytest.raises(InvalidProducerEpochError):
        manager.check_marker(1, -1, 8)


def test_many_open_transactions_make_no_look_up_long(tmp_path: Path, manager: ProducerStateManager) -> None:
    """In whatever order a snapshot has them. A fetch asks for the first one."""
    looked_at = 0

    class Counted(OrderedDict[int, int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal looked_at
            for key in super().__iter__():
                looked_at += 1
                yield key

    count = 1000
    for number in reversed(range(count)):
        entry = ProducerEntry()
        entry.transaction_first_offset = number
        manager.producers[number] = entry
    manager.end_offset = count
    manager.take_snapshot(sync=False)
    loaded = ProducerStateManager(str(tmp_path), DAY, [count])
    loaded.reload(0, count, 0)
    loaded.ongoing = Counted(loaded.ongoing)
    looked_at = 0
    for number in range(count):
        assert loaded.first_unstable_offset == number
        row = loaded.complete(number, 0, 0, count + number, 1, aborted=True)
        assert row is not None
        assert row.last_stable_offset == (number + 1 if number + 1 < count else count + number + 1)
        loaded.on_high_watermark(count + number + 1)
    assert looked_at < 3 * count


def test_a_marker_of_a_new_epoch_restarts_the_sequence(producer: Producer) -> None:
    producer.append(0, 3, transactional=True)
    producer.manager.complete(producer.id, 1, 0, 3, 5, aborted=True)
    with pytest.raises(OutOfOrderSequenceNumberError):
        producer.append(3, epoch=1)
    assert producer.append(0, epoch=1) is None


# -- snapshots -----------------------------------------------------------------------------------------------

# One producer: id 1, epoch 2, last sequence 3, last offset 4, offset delta 5, timestamp 6, coordinator epoch -1, no
# transaction. Layout from ProducerStateManager; the CRC-32C from crcmod's table implementation.
GOLDEN = bytes.fromhex(
    "0001 d60ce518 00000001"
    "0000000000000001 0002 00000003 0000000000000004 00000005 0000000000000006 ffffffff ffffffffffffffff"
)
GOLDEN_ENTRY = SnapshotEntry(1, 2, 3, 4, 5, 6, -1, -1)


def test_snapshot_bytes() -> None:
    assert encode([GOLDEN_ENTRY]).hex() == GOLDEN.hex()
    assert decode(GOLDEN) == [GOLDEN_ENTRY]


@pytest.mark.parametrize("cut", range(0, len(GOLDEN), 5))
def test_torn_snapshots_are_refused(cut: int) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode(GOLDEN[:cut])


@pytest.mark.parametrize("at", range(len(GOLDEN)))
def test_flipped_bits_are_refused(at: int) -> None:
    data = bytearray(GOLDEN)
    data[at] ^= 0x10
    with pytest.raises(CorruptSnapshotError):
        decode(bytes(data))


def test_state_comes_back_from_a_snapshot(tmp_path: Path, manager: ProducerStateManager) -> None:
    for producer_id in (5, 6):
        Producer(manager, producer_id).append(0, 3, timestamp=1000)
        Producer(manager, producer_id).append(3, 2, timestamp=1000)
    Producer(manager, 7).append(0, 1, timestamp=1000, transactional=True)
    manager.take_snapshot(sync=True)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000011.snapshot"]
    again = ProducerStateManager(str(tmp_path), DAY, [11])
    again.reload(0, 50, 1000)
    assert again.end_offset == 11
    assert again.rows() == manager.rows()
    assert again.first_unstable_offset == 10
    # The last batch is known, the one before is not.
    assert Producer(again, 5).append(3, 2) == (3, 4)
    with pytest.raises(OutOfOrderSequenceNumberError):
        Producer(again, 5).append(0, 3)
    assert Producer(again, 5).append(5) is None


def test_a_bad_snapshot_is_removed_and_an_older_one_used(tmp_path: Path, manager: ProducerStateManager) -> None:
    producer = Producer(manager)
    producer.append(0, 3)
    manager.take_snapshot(sync=False)
    producer.append(3, 3)
    manager.take_snapshot(sync=False)
    manager.sync_snapshots()
    (tmp_path / "00000000000000000006.snapshot").write_bytes(b"\0" * 56)
    again = ProducerStateManager(str(tmp_path), DAY, [3, 6])
    again.reload(0, 6, 1)
    assert again.end_offset == 3
    assert again.snapshot_offsets == [3]
    assert not (tmp_path / "00000000000000000006.snapshot").exists()


def test_snapshots_outside_the_log_are_removed(tmp_path: Path, manager: ProducerStateManager) -> None:
    producer = Producer(manager)
    for i in range(4):
        producer.append(i * 10, 10)
        manager.take_snapshot(sync=False)
    again = ProducerStateManager(str(tmp_path), DAY, [10, 20, 30, 40])
    again.reload(10, 35, 1)
    assert again.snapshot_offsets == [20, 30]
    assert again.end_offset == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000020.snapshot", "00000000000000000030.snapshot",
    ]  # fmt: skip


def test_stray_snapshots_go_but_for_the_newest_past_the_last_segment(tmp_path: Path) -> None:
    for offset in (5, 10, 15, 20, 25, 30):
        producer_snapshots.write(str(tmp_path / f"{offset:020d}.snapshot"), [], sync=False)
    manager = ProducerStateManager(str(tmp_path), DAY, [5, 10, 15, 20, 25, 30])
    manager.remove_stray_snapshots([0, 10, 20])
    assert manager.snapshot_offsets == [10, 20, 30]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["next", "repeat", "gap", "bump", "old"]), st.integers(1, 4)),
        max_size=60,
    )
)
def test_no_sequence_is_appended_twice_or_skipped(acts: list[tuple[int, str, int]]) -> None:
    manager = ProducerStateManager("unused", DAY)
    appended: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    epochs = [0, 0, 0]
    for number, act, count in acts:
        producer = Producer(manager, number)
        rows = appended.setdefault((number, epochs[number]), [])
        following = rows[-1][0] + rows[-1][1] if rows else 0
        if act == "bump":
            epochs[number] += 1
            rows = appended.setdefault((number, epochs[number]), [])
            following = 0
        if act == "repeat" and rows:
            sequence, size, offset = rows[-1]
            assert producer.append(sequence, size, epoch=epochs[number]) == (offset, offset + size - 1)
        elif act == "gap" and rows:
            with pytest.raises(OutOfOrderSequenceNumberError):
                producer.append(following + 1, count, epoch=epochs[number])
        elif act == "old" and rows and epochs[number]:
            with pytest.raises(InvalidProducerEpochError):
                producer.append(following, count, epoch=epochs[number] - 1)
        else:
            offset = manager.end_offset
            assert producer.append(following, count, epoch=epochs[number]) is None
            rows.append((following, count, offset))


# -- transaction index ---------------------------------------------------------------------------------------


def test_transaction_index(tmp_path: Path) -> None:
    index = TransactionIndex(str(tmp_path / "00000000000000000010.txnindex"), 10)
    assert index.items() == []
    rows = [AbortedTransaction(1, 2, 12, 13), AbortedTransaction(2, 5, 20, 18), AbortedTransaction(1, 22, 30, 31)]
    for row in rows:
        index.append(row)
    assert Path(index.path).read_bytes()[:34].hex() == (
        "000000000000000000010000000000000002000000000000000c000000000000000d"
    )  # fmt: skip
    assert index.items() == rows
    assert index.collect(0, 11) == ([rows[0]], True)
    assert index.collect(13, 25) == (rows[1:], True)
    assert index.collect(13, 40) == (rows[1:], False)
    index.truncate_to(20)
    assert index.items() == rows[:1]

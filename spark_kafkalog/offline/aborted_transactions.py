"""Finds the aborted transactions, whose records a read_committed consumer does not see.

A broker takes them from its `.txnindex` files. Here the log itself is the authority. The marker that ends a
transaction follows its records, so the markers within and behind a range of the log decide on the range's records. An
index entry that says "aborted" saves reading behind the range; a missing entry proves nothing.

A transaction without a marker is still open. For read_committed, a partition ends where the first open transaction
begins (the last stable offset).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple

from kafkalog.records.batch import BatchHeader, decode_batch
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import RecordsError
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from spark_kafkalog.offline.segment import Batches


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, and that of its marker."""

    producer_id: int
    first: int
    last: int


Walk = Generator[tuple[Batches, int, BatchHeader | None], None, None]
"""Batches of a partition in order: the segment of each, its position, its header. If the header is None, the bytes
from there on are damaged and skipped."""


class TransactionScan:
    """Tracks the transactions of a partition. Batches are passed to it in the order of their offsets.

    Attributes:
        under_way: First offset seen of each producer's transaction that has not ended yet.
    """

    def __init__(self, under_way: Mapping[int, int] | None = None) -> None:
        self.under_way = dict(under_way or {})
        self.aborted: list[Aborted] = []

    def see(self, batches: Batches, at: int, header: BatchHeader) -> None:
        """Take the next batch.

        Raises:
            CorruptLogError: The batch is a marker that cannot be read.
        """
        if not header.is_transactional or not header.has_producer_id:
            return
        if not header.is_control:
            self.under_way.setdefault(header.producer_id, header.base_offset)
            return
        first = self.under_way.pop(header.producer_id, None)
        if first is not None and _is_abort(batches, at, header):
            self.aborted.append(Aborted(header.producer_id, first, header.base_offset))

    def refuse_damage(self, path: str, at: int) -> None:
        """Check that no transaction may end in the damaged bytes at `at`.

        Raises:
            CorruptLogError: One may end there.
        """
        if self.under_way:
            producer = min(self.under_way, key=lambda each: self.under_way[each])
            raise _unknown_end(path, at, producer, "damaged bytes, and the marker may be among them")

    def see_behind(self, batches: Batches, at: int, header: BatchHeader) -> None:
        """Take a batch behind the range of interest. Transactions that begin there are ignored."""
        if header.is_control and header.producer_id in self.under_way:
            self.see(batches, at, header)

    def settle(self, indexed: Iterable[Aborted]) -> None:
        """End the transactions that an index lists as aborted."""
        for entry in indexed:
            first = self.under_way.get(entry.producer_id)
            if first is not None and entry.first <= first < entry.last:
                self.aborted.append(Aborted(entry.producer_id, first, entry.last))
                del self.under_way[entry.producer_id]


def aborted_before(walk: Walk, start: int, end: int, indexed: Callable[[], Iterable[Aborted]]) -> list[Aborted]:
    """Return the aborted transactions with batches in offsets [start, end) of a walk.

    The walk may begin before `start`, and goes on behind `end` to the end of the partition's log. It is followed only
    until the end of every transaction below `end` is known. `indexed` returns the entries of the transaction indexes,
    and is called at most once.

    Raises:
        CorruptLogError: Damage hides how a transaction ended.
    """
    scan = TransactionScan()
    behind = -1
    for batches, at, header in walk:
        if header is None:
            if behind <= start:
                # All batches so far lie before the range: start again behind the damage.
                scan.under_way.clear()
            scan.refuse_damage(batches.path, at)
            continue
        if header.base_offset >= end:
            break
        scan.see(batches, at, header)
        behind = header.next_offset
    else:
        return scan.aborted
    if scan.under_way:
        scan.settle(indexed())
    if scan.under_way:
        scan.see_behind(batches, at, header)
    while scan.under_way and (step := next(walk, None)) is not None:
        batches, at, header = step
        if header is None:
            scan.refuse_damage(batches.path, at)
        else:
            scan.see_behind(batches, at, header)
    # A missing marker was removed by compaction, which happens to markers of committed transactions.
    return scan.aborted


def last_stable_offset(under_way: Mapping[int, int], end: int) -> int:
    """Return the first offset of the earliest open transaction, or the end of the log."""
    return min(under_way.values(), default=end)


def _is_abort(batches: Batches, at: int, header: BatchHeader) -> bool:
    try:
        _, records = decode_batch(batches.bytes_at(at, header.size))
        return bool(records) and parse_control_type(records[0].key) == ControlRecordType.ABORT
    except RecordsError as error:
        raise _unknown_end(batches.path, at, header.producer_id, str(error)) from None


def _unknown_end(path: str, at: int, producer_id: int, why: str) -> CorruptLogError:
    return CorruptLogError(
        f"{path} is damaged at position {at}, where a transaction of producer {producer_id} ends: {why}. Without the "
        "marker it is not known whether the records before it are committed; kafka.isolation.level=read_uncommitted "
        "reads them."
    )

"""Which transactional records of a log a read_committed consumer does not see.

A broker tells its consumers from the ``.txnindex`` files. Here the log itself is the authority: the records of a
transaction are followed by the marker that ends it, so the markers within and behind a stretch of the log decide about
its records. An index entry that says "aborted" spares looking behind the stretch; that none is there says nothing.

A transaction that no marker ends is under way: a partition ends, for read_committed, where the first such begins (the
last stable offset).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple

from kafkalog.records.batch import BatchHeader, decode_batch
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import RecordsError

from .segment import Batches, CorruptLogError


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, and that of its marker."""

    producer_id: int
    first: int
    last: int


Walk = Generator[tuple[Batches, int, BatchHeader | None], None, None]
"""Batches of a partition in order: the segment each is in, its position, its header. None for a header: bytes from
there on are damaged, and passed over."""


class TransactionScan:
    """Follows the batches of a partition, fed in the order of their offsets."""

    def __init__(self, under_way: Mapping[int, int] | None = None) -> None:
        self.under_way = dict(under_way or {})
        """First offset seen of each producer's transaction that has not ended yet."""
        self.aborted: list[Aborted] = []

    def see(self, batches: Batches, at: int, header: BatchHeader) -> None:
        """The next batch. CorruptLogError for a marker that cannot be read."""
        if not header.is_transactional or not header.has_producer_id:
            return
        if not header.is_control:
            self.under_way.setdefault(header.producer_id, header.base_offset)
            return
        first = self.under_way.pop(header.producer_id, None)
        if first is not None and _is_abort(batches, at, header):
            self.aborted.append(Aborted(header.producer_id, first, header.base_offset))

    def refuse_damage(self, path: str, at: int) -> None:
        """CorruptLogError where a transaction may end in what is damaged there."""
        if self.under_way:
            producer = min(self.under_way, key=lambda each: self.under_way[each])
            raise _unknown_end(path, at, producer, "damaged bytes, and the marker may be among them")

    def see_behind(self, batches: Batches, at: int, header: BatchHeader) -> None:
        """A batch behind the stretch that matters: transactions that begin there do not."""
        if header.is_control and header.producer_id in self.under_way:
            self.see(batches, at, header)

    def settle(self, indexed: Iterable[Aborted]) -> None:
        """End transactions that an index tells were aborted."""
        for entry in indexed:
            first = self.under_way.get(entry.producer_id)
            if first is not None and entry.first <= first < entry.last:
                self.aborted.append(Aborted(entry.producer_id, first, entry.last))
                del self.under_way[entry.producer_id]


def aborted_before(walk: Walk, start: int, end: int, indexed: Callable[[], Iterable[Aborted]]) -> list[Aborted]:
    """The aborted transactions among a walk's batches of offsets [start, end).

    The walk may begin before ``start``. It goes on behind ``end``, as far as the partition's log does, and is followed
    only as long as it is not known how a transaction below ``end`` ended. ``indexed``: what transaction indexes tell,
    asked for at most once. CorruptLogError where damage hides how one ended.
    """
    scan = TransactionScan()
    behind = -1
    for batches, at, header in walk:
        if header is None:
            if behind <= start:
                # What matters comes later, and begins anew then.
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
    # A marker that is nowhere was compacted away, as those of committed transactions are.
    return scan.aborted


def last_stable_offset(under_way: Mapping[int, int], end: int) -> int:
    """The first offset of the earliest transaction under way, or the end of the log."""
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

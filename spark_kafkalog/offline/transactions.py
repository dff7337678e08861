"""Which transactional records of a log a read_committed consumer does not see.

A broker tells its consumers from the ``.txnindex`` files. Here the log itself is the authority: the records of a
transaction are followed by the marker that ends it, so the markers within and behind a stretch of the log decide about
its records. An index entry that says "aborted" spares looking behind the stretch; that none is there says nothing.

A transaction that no marker ends is under way: a partition ends, for read_committed, where the first such begins (the
last stable offset).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from kafkalog.records.batch import BatchHeader, decode_batch
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import RecordsError

from .layout import Aborted
from .segment import Batches, CorruptLogError

Walk = Generator[tuple[Batches, int, BatchHeader], None, None]
"""Batches of a partition in order: the segment each is in, its position, its header."""


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


def aborted_before(walk: Walk, end: int, indexed: Callable[[], Iterable[Aborted]]) -> list[Aborted]:
    """The aborted transactions among a walk's batches below ``end``.

    The walk goes on behind ``end``, as far as the partition's log does, and is followed only as long as it is not known
    how a transaction below ``end`` ended. ``indexed``: what transaction indexes tell, asked for at most once.
    """
    scan = TransactionScan()
    for batches, at, header in walk:
        if header.base_offset >= end:
            break
        scan.see(batches, at, header)
    else:
        return scan.aborted
    if scan.under_way:
        scan.settle(indexed())
    if scan.under_way:
        scan.see_behind(batches, at, header)
    while scan.under_way and (step := next(walk, None)) is not None:
        scan.see_behind(*step)
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
        raise CorruptLogError(
            f"{batches.path} is damaged at position {at}, where a transaction of producer {header.producer_id} ends: "
            f"{error}. Without the marker it is not known whether offsets below {header.base_offset} are committed; "
            "kafka.isolation.level=read_uncommitted reads them."
        ) from None

"""Checking one segment: every batch of its `.log` file, and its indexes against the batches.

Damage does not end a check. The batch after a damaged one is found by the damaged batch's length if that is plausible,
else by the offset index. So a report says how much is lost and how much is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from broker.log.producer_state.control_batches import Marker, parse_marker
from broker.log.segment.batch_scan import is_zero
from broker.log.tools.checks.findings import Finding, Level, Remedy
from broker.log.tools.checks.index_check import OffsetIndexCheck, TimeIndexCheck
from broker.log.tools.targets import PartitionDir
from kafkalog.records import checking
from kafkalog.records.any_format import header_is_there, read_any_header, verify_any_crc
from kafkalog.records.batch import CONTROL_FLAG, HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, TRANSACTIONAL_FLAG
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.records.kernels.abi import table as t
from kafkalog.storage import names
from kafkalog.storage.batch_walk import stated_size
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

CHUNK_BYTES = 1 << 20
"""Bytes that are read at once: so few that they are still in the processor's cache when they are checked."""
GAPS_KEPT = 100


class Damage(NamedTuple):
    """Describe bytes [position, end) of a `.log` file without a valid batch."""

    position: int
    end: int
    offset: int
    """The offset from which on they say to have records; no checksum proves it."""
    expected: int
    """The offset after the valid batches before them."""
    problem: str
    sound_after: bool = False
    """True if valid batches follow in the file."""

    @property
    def is_reserve(self) -> bool:
        """Return whether this is, in the last segment, only the space that `preallocate` has reserved."""
        return not self.sound_after and self.problem.endswith("that are zero")


class LastBatch(NamedTuple):
    """Describe the last valid batch so far. `expected` is the offset after the batch before it."""

    position: int
    base_offset: int
    next_offset: int
    expected: int


class EpochRun(NamedTuple):
    """Describe consecutive batches of one leader epoch."""

    epoch: int
    first_offset: int
    """Base offset of the first of the batches."""
    batches: int


class Transactional(NamedTuple):
    """Describe a batch of a transaction, or the marker that ends one."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool | None
    """True if a marker aborts the transaction; None for a batch of data."""


@dataclass
class SegmentReport:
    """Hold the properties of a segment that the checks of the whole partition need."""

    base: int
    size: int
    findings: list[Finding] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    batches: int = 0
    next_offset: int = 0
    valid_end: int = 0
    """Position at which the last valid batch ends."""
    last: LastBatch | None = None
    max_timestamp: int = -1
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of offsets [from, to) that no batch has; the first hundred."""
    missing_offsets: int = 0
    thinned: bool = False
    """True if batches have fewer records than offsets, as compaction leaves them."""
    epochs: list[EpochRun] = field(default_factory=list)
    """The valid batches by their leader epochs, in the order of the file."""
    producers: dict[int, int] = field(default_factory=dict)
    """Last offset of the last batch of each producer."""
    transactions: list[Transactional] = field(default_factory=list)
    """Markers, and the first batch of data of each producer since its last marker."""
    in_transaction: set[int] = field(default_factory=set)
    counts: checking.Counts = field(default_factory=checking.Counts)
    indexes_wrong: bool = False


class Options(NamedTuple):
    """Hold the options of a check."""

    records: bool = True
    """Decompress and check every record; otherwise only checksums and headers."""
    live: bool = False
    """A broker is writing, so the end of the file may be incomplete."""


DEFAULTS = Options()


def check_segment(
    partition: PartitionDir,
    base: int,
    *,
    is_last: bool,
    options: Options = DEFAULTS,
    progress: Callable[[int], None] = lambda size: None,
) -> SegmentReport:
    """Read the segment and compare its indexes with it; `progress` is called with the number of bytes read.

    Raises:
        OSError: the `.log` file cannot be read.
    """
    path = partition.file(base, names.LOG)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        report = SegmentReport(base, os.fstat(fd).st_size, next_offset=base)
        index = OffsetIndexCheck(partition.file(base, names.INDEX), base, may_have_zeros=is_last)
        times = TimeIndexCheck(partition.file(base, names.TIME_INDEX), base, may_have_zeros=is_last)
        following = min((other for other in partition.bases if other > base), default=t.MAX_BASE_OFFSET)
        limit = min(following, base + MAX_RELATIVE_OFFSET + 1)
        reader = _Reader(fd, path, report, index.positions, limit, options, progress)
        for view, position, table in reader.chunks():
            _take(report, view, position, table, reader.markers)
            absolute = table[:, t.POSITION] + position
            last = table[:, t.BASE_OFFSET] + table[:, t.LAST_OFFSET_DELTA]
            index.take(absolute, last)
            times.take(table[:, t.BASE_OFFSET], last, table[:, t.MAX_TIMESTAMP])
    finally:
        os.close(fd)
    _judge_damages(report, path, is_last, options)
    found = [*index.findings(report), *times.findings(report)]
    if not is_last or not options.live:
        report.findings += found
    report.indexes_wrong = any(finding.level is Level.ERROR for finding in found)
    return report


class _Reader:
    """Walk over the file in chunks, check the batches, and note damage.

    Attributes:
        markers: the markers of the latest chunk, by the position of their batch in it; None for a control batch of
            another type.
    """

    def __init__(
        self,
        fd: int,
        path: str,
        report: SegmentReport,
        index_positions: list[int],
        limit: int,
        options: Options,
        progress: Callable[[int], None],
    ) -> None:
        self._fd = fd
        self._path = path
        self._report = report
        self._index_positions = index_positions
        self._limit = limit
        """The offset before which the segment ends: that of the next one, or the last that its index can name."""
        self._options = options
        self._progress = progress
        self._buffer = bytearray(min(CHUNK_BYTES, report.size))
        self.markers: dict[int, Marker | None] = {}

    def chunks(self) -> Iterator[tuple[memoryview, int, Any]]:
        """Yield (bytes, position of the first byte, rows of the valid batches in them)."""
        report = self._report
        position, end = 0, report.size
        while position < end:
            view = self._read(position, end)
            scan = checking.scan(view, 0, report.next_offset)
            if len(scan.table):
                wrong = checking.check(view, scan.table, report.counts, records=self._options.records)
                wrong = self._unreadable_markers(view, scan.table, self._misplaced(scan.table, wrong))
                yield view, position, self._sound(position, scan.table, wrong)
                self._progress(scan.position)
                position += scan.position
                # The offsets of a damaged batch do not discredit the next batch: check that one again.
                if scan.error is None or (wrong and wrong[-1][0] == len(scan.table) - 1):
                    continue
                view = view[scan.position :]
            if scan.error is None:
                size = stated_size(view)
                if position + size <= end and size > len(view):
                    # The batch is larger than a chunk.
                    self._buffer = bytearray(size)
                    continue
            elif self._base_offset_was_wrong(position, end):
                continue
            problem = self._problem(scan.error, view, position, end)
            resumed = self._resume(view, position, end)
            report.damages.append(Damage(position, resumed, report.next_offset, report.next_offset, problem))
            self._progress(resumed - position)
            position = resumed
        report.damages = [damage._replace(sound_after=report.valid_end > damage.position) for damage in report.damages]

    def _read(self, position: int, end: int) -> memoryview:
        view = memoryview(self._buffer)[: min(len(self._buffer), end - position)]
        filled = 0
        while filled < len(view):
            count = os.preadv(self._fd, [view[filled:]], position + filled)
            if count == 0:
                raise OSError(5, "the file was cut while it was read", self._path)
            filled += count
        return view

    def _sound(self, position: int, table: Any, wrong: list[tuple[int, RecordsError]]) -> Any:
        """Return the rows of valid batches, and note damage for the others."""
        if not wrong:
            return table
        rows = table.tolist()
        keep = np.ones(len(table), bool)
        keep[[row for row, _ in wrong]] = False
        expected = self._report.next_offset
        for row, error in wrong:
            if row and keep[row - 1]:
                expected = rows[row - 1][t.BASE_OFFSET] + rows[row - 1][t.LAST_OFFSET_DELTA] + 1
            at, first = position + rows[row][t.POSITION], rows[row][t.BASE_OFFSET]
            if first >= self._limit:
                first = expected
            self._report.damages.append(Damage(at, at + rows[row][t.SIZE], first, expected, str(error)))
        return table[keep]

    def _misplaced(self, table: Any, wrong: list[tuple[int, RecordsError]]) -> list[tuple[int, RecordsError]]:
        """Add the batches that skip to offsets past the segment's end: no checksum covers a base offset.

        Batches that reach such offsets without a gap are sound: then it is the next segment that is out of place.
        """
        first = table[:, t.BASE_OFFSET]
        after = first + table[:, t.LAST_OFFSET_DELTA] + 1
        expected = np.concatenate(([self._report.next_offset], after[:-1]))
        found = dict(wrong)
        for row in np.flatnonzero((after > self._limit) & (first > expected)).tolist():
            text = f"base offset {int(first[row])} cannot be: the segment ends before offset {self._limit}"
            found.setdefault(row, CorruptRecordError(text))
        return sorted(found.items())

    def _unreadable_markers(
        self, view: memoryview, table: Any, wrong: list[tuple[int, RecordsError]]
    ) -> list[tuple[int, RecordsError]]:
        """Read the control records of producers, and add the batches in which they do not read.

        A recovery cuts the log there, too.
        """
        self.markers = {}
        found = dict(wrong)
        # Compaction leaves empty batches, to keep the epochs of producers.
        owned = (table[:, t.ATTRIBUTES] & CONTROL_FLAG != 0) & (table[:, t.PRODUCER_ID] >= 0) & (table[:, t.COUNT] > 0)
        for row in np.flatnonzero(owned).tolist():
            at = int(table[row, t.POSITION])
            if row in found or view[at + MAGIC_AT] != MAGIC:
                continue
            try:
                self.markers[at] = parse_marker(view[at : at + int(table[row, t.SIZE])])
            except RecordsError as error:
                found[row] = error
        return sorted(found.items())

    def _base_offset_was_wrong(self, position: int, end: int) -> bool:
        """Return whether the batch before `position` has a base offset that is too large.

        It has if the batch at `position` continues the offsets from before that batch. No checksum covers a base
        offset. Then that batch counts as damage, and the one at `position` is checked again.
        """
        report = self._report
        last = report.last
        if last is None or report.valid_end != position or last.base_offset <= last.expected:
            return False
        report.next_offset = last.expected
        if not self._is_sound(position, end):
            report.next_offset = last.next_offset
            return False
        problem = f"base offset {last.base_offset} cannot be: the offsets behind it are smaller"
        report.damages.append(Damage(last.position, position, last.expected, last.expected, problem))
        report.valid_end, report.last = last.position, None
        report.batches -= 1
        return True

    def _problem(self, error: RecordsError | None, view: memoryview, position: int, end: int) -> str:
        left = end - position
        if is_zero(self._fd, position, end):
            return f"{left} bytes that are zero"
        if error is not None:
            return str(error)
        if not header_is_there(view, 0, len(view)):
            return f"{left} bytes that are less than a batch's header"
        return f"a batch of {stated_size(view)} bytes of which {left} are there"

    def _resume(self, view: memoryview, position: int, end: int) -> int:
        """Return where the next valid batch begins: after this one by its length, or where the offset index points."""
        candidates = []
        size = stated_size(view)
        if size > LOG_OVERHEAD:
            candidates.append(position + size)
        candidates += [at for at in self._index_positions if at > position]
        for at in candidates:
            if at < end and self._is_sound(at, end):
                return at
        return end

    def _is_sound(self, position: int, end: int) -> bool:
        head = os.pread(self._fd, HEADER_SIZE, position)
        try:
            header = read_any_header(head)
            if position + header.size > end or header.base_offset < self._report.next_offset:
                return False
            verify_any_crc(os.pread(self._fd, header.size, position), 0, header)
        except RecordsError:
            return False
        return True


def _take(
    report: SegmentReport, view: memoryview, position: int, table: Any, markers: Mapping[int, Marker | None]
) -> None:
    """Collect the properties of valid batches that the partition's checks need; `position` is that of the view."""
    if not len(table):
        return
    report.batches += len(table)
    first = table[:, t.BASE_OFFSET]
    after = first + table[:, t.LAST_OFFSET_DELTA] + 1
    expected = np.concatenate(([report.next_offset], after[:-1]))
    data = np.frombuffer(view, np.uint8)
    new = data[table[:, t.POSITION] + MAGIC_AT] == MAGIC
    # A wrapper message of v0 or v1 carries its last offset only.
    gaps = np.flatnonzero((first > expected) & (new | (table[:, t.COUNT] == 1)))
    for row in gaps[: GAPS_KEPT - len(report.gaps)].tolist():
        report.gaps.append((int(expected[row]), int(first[row])))
    report.missing_offsets += int((first - expected)[gaps].sum())
    report.thinned |= bool(((table[:, t.COUNT] < table[:, t.LAST_OFFSET_DELTA] + 1) & new).any())
    report.max_timestamp = max(report.max_timestamp, int(table[:, t.MAX_TIMESTAMP].max()))
    start = position + int(table[-1, t.POSITION])
    report.last = LastBatch(start, int(first[-1]), int(after[-1]), int(expected[-1]))
    report.next_offset, report.valid_end = int(after[-1]), start + int(table[-1, t.SIZE])
    if not new.any():
        return
    rows = table[new]
    _take_epochs(report, data, rows)
    owned = rows[rows[:, t.PRODUCER_ID] >= 0]
    if len(owned):
        _take_producers(report, owned, markers)


def _take_epochs(report: SegmentReport, data: Any, rows: Any) -> None:
    at = rows[:, t.POSITION][:, None] + np.arange(LOG_OVERHEAD, LOG_OVERHEAD + 4)
    epochs = np.ascontiguousarray(data[at]).view(">i4")[:, 0].astype(np.int64)
    changes = np.flatnonzero(np.diff(epochs)) + 1
    for start, end in pairwise([0, *changes.tolist(), len(epochs)]):
        run = EpochRun(int(epochs[start]), int(rows[start, t.BASE_OFFSET]), end - start)
        if report.epochs and report.epochs[-1].epoch == run.epoch:
            before = report.epochs.pop()
            run = before._replace(batches=before.batches + run.batches)
        report.epochs.append(run)


def _take_producers(report: SegmentReport, rows: Any, markers: Mapping[int, Marker | None]) -> None:
    control = rows[:, t.ATTRIBUTES] & CONTROL_FLAG != 0
    data = rows[~control]
    if len(data):
        ids, at = np.unique(data[::-1, t.PRODUCER_ID], return_index=True)
        last = (data[:, t.BASE_OFFSET] + data[:, t.LAST_OFFSET_DELTA])[::-1][at]
        report.producers.update(zip(ids.tolist(), last.tolist(), strict=True))
    for row in rows[rows[:, t.ATTRIBUTES] & (CONTROL_FLAG | TRANSACTIONAL_FLAG) != 0].tolist():
        aborted: bool | None = None
        if row[t.ATTRIBUTES] & CONTROL_FLAG:
            marker = markers.get(row[t.POSITION])
            if marker is None:
                continue
            aborted = marker.aborted
            report.in_transaction.discard(row[t.PRODUCER_ID])
        elif row[t.PRODUCER_ID] in report.in_transaction:
            continue
        else:
            report.in_transaction.add(row[t.PRODUCER_ID])
        report.transactions.append(
            Transactional(
                row[t.PRODUCER_ID], row[t.BASE_OFFSET], row[t.BASE_OFFSET] + row[t.LAST_OFFSET_DELTA], aborted
            )
        )


def _judge_damages(report: SegmentReport, path: str, is_last: bool, options: Options) -> None:
    for damage in report.damages:
        tail = is_last and not damage.sound_after
        lost = damage.end - damage.position
        problem = damage.problem if f"{lost} bytes" in damage.problem else f"{damage.problem} ({lost} bytes)"
        level, remedy = Level.ERROR, Remedy.CUT_TAIL if tail else Remedy.CHOOSE
        if tail and options.live:
            level, remedy = Level.NOTE, Remedy.WAIT
        elif tail and damage.is_reserve:
            level = Level.NOTE
        report.findings.append(Finding(path, problem, remedy, level, damage.position, damage.offset))

"""Checking the segments of a partition against each other, and the files beside them."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from broker.log.directories.checkpoints import read_epochs, read_offsets, read_partition_metadata
from broker.log.index.index_file import CorruptIndexError
from broker.log.index.transaction_index import TransactionIndex
from broker.log.producer_state import producer_snapshots
from broker.log.tools.checks.findings import Finding, Level, Remedy
from broker.log.tools.checks.segment_check import SegmentReport
from broker.log.tools.targets import PartitionDir, is_segment_file
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError
from kafkalog.storage.snapshots import CorruptSnapshotError, SnapshotEntry
from kafkalog.storage.transaction_entries import ENTRY_SIZE


@dataclass
class PartitionReport:
    """Hold what was found of a partition; `findings` includes those of the segments."""

    partition: PartitionDir
    segments: list[SegmentReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    wrong_transaction_indexes: list[int] = field(default_factory=list)
    """Base offsets of the segments whose transaction index does not match the log."""
    wrong_snapshots: list[str] = field(default_factory=list)
    wrong_epochs: bool = False

    @property
    def next_offset(self) -> int:
        """The offset after the last valid batch; 0 if there is no segment."""
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def damaged(self) -> bool:
        """Return whether a `.log` file is damaged."""
        return any(
            not (segment is self.segments[-1] and damage.is_reserve)
            for segment in self.segments
            for damage in segment.damages
        )


def check_partition(partition: PartitionDir, segments: list[SegmentReport], *, live: bool = False) -> PartitionReport:
    """Check a partition by the reports of its segments, which are in the order of their offsets.

    With `live`, findings about the last segment are left out, because a broker writes there.

    Raises:
        OSError: a file cannot be read.
    """
    report = PartitionReport(partition, segments)
    for segment in segments:
        report.findings += segment.findings
    report.findings += _gaps(partition, segments)
    report.findings += _metadata(partition)
    report.findings += _epochs(report, live)
    report.findings += _leftovers(partition)
    # A log with holes, or without the batches of its first segments, does not show what producers did.
    if not report.damaged:
        _Producers(report, live).check()
    return report


# -- offsets -------------------------------------------------------------------------------------------------


def _gaps(partition: PartitionDir, segments: list[SegmentReport]) -> Iterator[Finding]:
    compacted = _may_be_compacted(partition) or any(segment.thinned for segment in segments)
    missing = 0
    for before, segment in zip([None, *segments], segments, strict=False):
        gaps = [] if segment.damages else segment.gaps
        path = partition.file(segment.base, names.LOG)
        if before is not None and not before.damages:
            if segment.base < before.next_offset:
                yield Finding(
                    path, f"the segment before it goes on to offset {before.next_offset - 1}", Remedy.RESTORE,
                    offset=segment.base,
                )  # fmt: skip
            elif segment.base > before.next_offset:
                gaps = [(before.next_offset, segment.base), *gaps]
                missing += segment.base - before.next_offset
        missing += 0 if segment.damages else segment.missing_offsets
        if not compacted:
            for start, end in gaps:
                text = f"offsets {start} to {end - 1} are in no batch, and no compaction is known of"
                yield Finding(path, text, Remedy.RESTORE, offset=start)
    if missing and compacted:
        yield Finding(partition.path, f"{missing} offsets are in no batch, as compaction leaves it", level=Level.NOTE)


def _may_be_compacted(partition: PartitionDir) -> bool:
    """Return whether the partition may have been compacted.

    The cleaner's checkpoint of its log directory tells; without a checkpoint that can be read, it may have been.
    """
    top = partition.log_dir
    if not any(os.path.exists(os.path.join(top, name)) for name in names.OFFSET_CHECKPOINTS):
        return True
    try:
        return partition.key in read_offsets(os.path.join(top, names.CLEANER_CHECKPOINT))
    except (OSError, CorruptCheckpointError):
        return True


# -- files beside the segments -------------------------------------------------------------------------------


def _metadata(partition: PartitionDir) -> Iterator[Finding]:
    path = os.path.join(partition.path, names.PARTITION_METADATA)
    try:
        if names.PARTITION_METADATA in partition.files and read_partition_metadata(partition.path) is None:
            yield Finding(path, "the file is empty: no topic id is known", level=Level.NOTE)
    except CorruptCheckpointError as error:
        yield Finding(path, _of(error, path), Remedy.RESTORE)


def growing_epochs(segments: Sequence[SegmentReport]) -> list[tuple[int, int]]:
    """Return (leader epoch, base offset of its first batch) for each change of the epoch, as far as epochs grow.

    No checksum covers the epoch of a batch. So the fewest batches that contradict the others are left out; where there
    are as many on both sides, the higher epoch counts.
    """
    runs = [run for segment in segments for run in segment.epochs if run.epoch >= 0]
    # Find the sequence of most batches whose epochs do not fall. `ends` has the runs that end such sequences, `epochs`
    # their epochs and `weights` the batches of the sequences; neither falls. A sequence is forgotten when another one
    # has more batches and ends with a lower epoch.
    ends: list[int] = []
    epochs: list[int] = []
    weights: list[int] = []
    before: list[int] = []
    for at, run in enumerate(runs):
        place = bisect_right(epochs, run.epoch)
        before.append(ends[place - 1] if place else -1)
        weight = run.batches + (weights[place - 1] if place else 0)
        end = bisect_left(weights, weight, place)
        ends[place:end], epochs[place:end], weights[place:end] = [at], [run.epoch], [weight]
    kept = []
    at = ends[-1] if ends else -1
    while at >= 0:
        kept.append((runs[at].epoch, runs[at].first_offset))
        at = before[at]
    return kept[::-1]


def _fallen_epochs(report: PartitionReport) -> Iterator[Finding]:
    growing = set(growing_epochs(report.segments))
    for segment in report.segments:
        for epoch, first, _ in segment.epochs:
            if epoch >= 0 and (epoch, first) not in growing:
                path = report.partition.file(segment.base, names.LOG)
                text = f"the batch has leader epoch {epoch}, which does not fit those of the batches around it"
                yield Finding(path, text, Remedy.RESTORE, offset=first)


def _epochs(report: PartitionReport, live: bool) -> Iterator[Finding]:
    partition = report.partition
    yield from _fallen_epochs(report)
    path = os.path.join(partition.path, names.LEADER_EPOCH_CHECKPOINT)
    if names.LEADER_EPOCH_CHECKPOINT not in partition.files:
        return
    try:
        rows = read_epochs(path)
    except CorruptCheckpointError as error:
        report.wrong_epochs = True
        yield Finding(path, _of(error, path), Remedy.REBUILD_EPOCHS)
        return
    problem, offset = None, None
    for (epoch, start), (later, later_start) in pairwise(rows):
        if later <= epoch or later_start < start:
            problem = f"epoch {later} from offset {later_start} does not follow epoch {epoch} from offset {start}"
    if problem is None and rows:
        for epoch, first in growing_epochs(report.segments):
            known = max((row for row in rows if row[1] <= first), default=None)
            if known is not None and known[0] != epoch:
                problem, offset = f"the batch has leader epoch {epoch}, the file says {known[0]}", first
                break
    if problem is not None and not live:
        report.wrong_epochs = True
        yield Finding(path, problem, Remedy.REBUILD_EPOCHS, offset=offset)


def _leftovers(partition: PartitionDir) -> Iterator[Finding]:
    leftovers = [name for name in partition.files if name.endswith(names.LEFTOVERS) and is_segment_file(name)]
    if leftovers:
        text = f"{len(leftovers)} files are left over from a compaction or deletion; a broker deals with them"
        yield Finding(partition.path, text, level=Level.NOTE)
    for name in sorted(partition.files):
        if _is_index(name) and name not in leftovers and names.offset_of(name) not in partition.bases:
            path = os.path.join(partition.path, name)
            yield Finding(path, "an index without its log; a broker removes it", level=Level.NOTE)


def _is_index(name: str) -> bool:
    return is_segment_file(name) and not name.endswith((names.LOG, names.SNAPSHOT))


# -- producers and transactions ------------------------------------------------------------------------------


class _Producers:
    """Follow the producers through the segments, and compare them with snapshots and transaction indexes."""

    def __init__(self, report: PartitionReport, live: bool) -> None:
        self._report = report
        self._live = live
        self._last: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._is_thinned = False
        """True if compaction has removed records so far. What producers did may then be known of a part only."""

    def check(self) -> None:
        report = self._report
        partition, segments = report.partition, report.segments
        for before, segment in zip([None, *segments], segments, strict=False):
            self._is_thinned |= before is not None and segment.base > before.next_offset
            self._compare(segment.base)
            self._is_thinned |= segment.thinned or bool(segment.missing_offsets)
            aborted = self._follow(segment)
            is_live = self._live and segment is segments[-1]
            problem = None if is_live else self._transaction_index(segment, aborted)
            if problem is not None:
                report.wrong_transaction_indexes.append(segment.base)
                path = partition.file(segment.base, names.TXN_INDEX)
                report.findings.append(Finding(path, problem, Remedy.REBUILD_INDEX))
        if segments and not self._live:
            self._compare(report.next_offset)

    def _follow(self, segment: SegmentReport) -> list[tuple[int, int, int]]:
        """Take the segment's batches; return the transactions aborted in it as (producer, first, last offset)."""
        self._last.update(segment.producers)
        aborted = []
        for event in segment.transactions:
            if event.aborted is None:
                self._open.setdefault(event.producer_id, event.first_offset)
                continue
            first = self._open.pop(event.producer_id, None)
            if event.aborted and first is not None:
                aborted.append((event.producer_id, first, event.last_offset))
        return aborted

    def _transaction_index(self, segment: SegmentReport, aborted: list[tuple[int, int, int]]) -> str | None:
        path = self._report.partition.file(segment.base, names.TXN_INDEX)
        try:
            rows = TransactionIndex(path, segment.base).items()
            size = os.path.getsize(path) if os.path.exists(path) else 0
        except CorruptIndexError as error:
            return _of(error, path)
        if size % ENTRY_SIZE:
            return f"{size} bytes are not whole entries of {ENTRY_SIZE}"
        said = {(row.producer_id, row.last_offset): row.first_offset for row in rows}
        found = {(producer_id, last): first for producer_id, first, last in aborted}
        for (producer_id, last), first in found.items():
            if not self._may_begin(said.get((producer_id, last)), first):
                return f"the transaction of producer {producer_id} from {first} to {last}, aborted, is not in it"
        # Markers of transactions whose data was removed by retention or compaction cannot be recognized.
        markers = {(event.producer_id, event.last_offset) for event in segment.transactions if event.aborted}
        for (producer_id, last), first in said.items():
            if (producer_id, last) not in markers and not segment.thinned and not segment.missing_offsets:
                return f"no marker at offset {last} aborts the transaction of producer {producer_id} from {first}"
        return None

    def _may_begin(self, said: int | None, first: int) -> bool:
        """Return whether a transaction may have begun at offset `said` if its first batch in the log is at `first`.

        Compaction may have removed the batches before that one, and retention the segments.
        """
        if said is None or said == first:
            return said == first
        return 0 <= said < first and (self._is_thinned or said < self._report.segments[0].base)

    def _compare(self, offset: int) -> None:
        """Compare the snapshot of this offset, if there is one, with the log up to it."""
        partition = self._report.partition
        name = names.segment_name(offset, names.SNAPSHOT)
        if name not in partition.files:
            return
        path = os.path.join(partition.path, name)
        problem = None
        try:
            for row in producer_snapshots.read(path):
                problem = problem or self._row_problem(row, offset)
        except (CorruptSnapshotError, OSError) as error:
            problem = _of(error, path)
        if problem is not None:
            self._report.wrong_snapshots.append(name)
            self._report.findings.append(Finding(path, problem, Remedy.REMOVE_SNAPSHOT))

    def _row_problem(self, row: SnapshotEntry, offset: int) -> str | None:
        if row.last_offset >= offset:
            return (
                f"producer {row.producer_id} wrote offset {row.last_offset}, says a snapshot of what is before {offset}"
            )
        last = self._last.get(row.producer_id)
        is_removed = last is not None and row.last_offset > last and self._is_thinned
        if last is not None and row.last_offset >= 0 and row.last_offset != last and not is_removed:
            return f"producer {row.producer_id} wrote offset {row.last_offset} last, the log says {last}"
        first = self._open.get(row.producer_id)
        if first is not None and not self._may_begin(row.transaction_first_offset, first):
            said = row.transaction_first_offset
            return f"producer {row.producer_id} has a transaction open from {said}, the log says {first}"
        return None


def _of(error: Exception, path: str) -> str:
    """Return the text of an error without the path, which the finding has already."""
    return str(error).removeprefix(f"{path}: ")

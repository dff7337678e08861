"""Running the checks of everything at some paths: segments by many threads, then partitions, then log directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from broker.log.producer_state import producer_snapshots
from broker.log.tools import targets
from broker.log.tools.checks import segment_check
from broker.log.tools.checks.directory_check import by_key, check_directory
from broker.log.tools.checks.findings import Finding, Level, Remedy
from broker.log.tools.checks.partition_check import PartitionReport, check_partition
from broker.log.tools.checks.segment_check import SegmentReport
from broker.log.tools.targets import PartitionDir, Targets
from kafkalog.records import checking
from kafkalog.storage import names
from kafkalog.storage.snapshots import CorruptSnapshotError

SMALL_BYTES = 8 << 20
"""Plain Python checks so many bytes in less time than it takes to load the kernels."""


@dataclass
class Report:
    """Hold everything that was found, by path of partition and in the order of the names."""

    partitions: dict[str, PartitionReport] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    """Findings about log directories, and about files that could not be read."""

    @property
    def all_findings(self) -> Iterator[Finding]:
        for partition in self.partitions.values():
            yield from partition.findings
        yield from self.findings

    @property
    def wrong(self) -> bool:
        """Return whether there are findings other than notes."""
        return any(finding.level is Level.ERROR for finding in self.all_findings)


def total_bytes(found: Targets) -> int:
    """Return the size of the `.log` files, which a check reads."""
    total = 0
    for partition in found.partitions:
        for base in partition.bases:
            try:
                total += os.path.getsize(partition.file(base, names.LOG))
            except OSError:
                continue
    return total


def verify(
    found: Targets,
    *,
    threads: int | None = None,
    records: bool = True,
    live: bool | None = None,
    progress: Callable[[int], None] = lambda size: None,
    done: Callable[[PartitionReport], None] = lambda report: None,
) -> Report:
    """Check the targets; `done` is called with each partition as soon as it is checked.

    Args:
        threads: the number of threads; by default that of the processors.
        records: decompress and check every record, not only checksums and headers.
        live: whether a broker may be writing; by default the locks of the directories tell.
        progress: called on any thread with the number of bytes read.
    """
    if total_bytes(found) > SMALL_BYTES:
        checking.load()
    report = Report()
    tops = {partition.log_dir for partition in found.partitions}
    in_use = {top: targets.is_in_use(top) if live is None else live for top in tops}
    with ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="verify") as pool:
        try:
            waiting = [
                (partition, _submit(pool, partition, in_use[partition.log_dir], records, progress))
                for partition in found.partitions
            ]
            for partition, segments in waiting:
                result = _judge(partition, segments, in_use[partition.log_dir])
                report.partitions[partition.path] = result
                done(result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for file in found.files:
        report.findings += check_file(file, records=records)
    for log_dir in found.log_dirs:
        report.findings += check_directory(log_dir, by_key(log_dir, report.partitions), live=live)
    return report


def check_file(path: str, *, records: bool = True) -> list[Finding]:
    """Return what is wrong with one file: a segment's file by itself (an index with its log), or a checkpoint."""
    name = os.path.basename(path)
    directory = os.path.dirname(path) or "."
    if not targets.is_segment_file(name):
        if name in targets.TOP_FILES or name in targets.PARTITION_FILES:
            found = [
                *check_directory(directory, {}),
                *check_partition(PartitionDir(directory, (), frozenset({name})), []).findings,
            ]
            return [finding for finding in found if finding.file == path]
        return [Finding(path, "not a file of a log", level=Level.NOTE)]
    partition = targets.partition_at(directory)
    base = names.offset_of(name) or 0
    if name.endswith(names.SNAPSHOT):
        try:
            producer_snapshots.read(path)
        except CorruptSnapshotError as error:
            return [Finding(path, str(error), Remedy.REMOVE_SNAPSHOT)]
        return []
    if base not in partition.bases:
        return [Finding(path, "the log that belongs to it is not there", Remedy.RESTORE)]
    is_last = base == partition.bases[-1]
    segment = segment_check.check_segment(
        partition, base, is_last=is_last, options=segment_check.Options(records=records)
    )
    mine = frozenset(
        file for file in partition.files if targets.is_segment_file(file) and names.offset_of(file) == base
    )
    alone = PartitionDir(directory, (base,), mine)
    found = check_partition(alone, [segment]).findings
    return found if name.endswith(names.LOG) else [finding for finding in found if finding.file == path]


def _submit(
    pool: ThreadPoolExecutor, partition: PartitionDir, live: bool, records: bool, progress: Callable[[int], None]
) -> list[Future[SegmentReport]]:
    options = segment_check.Options(records=records, live=live)
    return [
        pool.submit(
            segment_check.check_segment,
            partition,
            base,
            is_last=base == partition.bases[-1],
            options=options,
            progress=progress,
        )
        for base in partition.bases
    ]


def _judge(partition: PartitionDir, segments: list[Future[SegmentReport]], live: bool) -> PartitionReport:
    reports: list[SegmentReport] = []
    unreadable: list[Finding] = []
    for base, future in zip(partition.bases, segments, strict=True):
        try:
            reports.append(future.result())
        except OSError as error:
            path = partition.file(base, names.LOG)
            if live and not os.path.exists(path):
                # Retention has deleted it meanwhile.
                continue
            unreadable.append(Finding(path, f"cannot be read: {error.strerror}", Remedy.RESTORE))
    try:
        result = check_partition(partition, reports, live=live)
    except OSError as error:
        result = PartitionReport(partition, reports)
        unreadable.append(
            Finding(error.filename or partition.path, f"cannot be read: {error.strerror}", Remedy.RESTORE)
        )
    result.findings += unreadable
    return result

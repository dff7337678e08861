"""Checking the files at the top of a log directory: the checkpoints against the logs, and the identity."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from broker.log.directories.checkpoints import read_meta_properties, read_offsets
from broker.log.tools.checks.findings import Finding, Level, Remedy
from broker.log.tools.checks.partition_check import PartitionReport
from broker.log.tools.targets import PartitionDir, is_in_use
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError

Key = tuple[str, int]


def check_directory(
    path: str, reports: Mapping[Key, PartitionReport], *, live: bool | None = None
) -> Iterator[Finding]:
    """Return the problems of the files in the log directory; `reports` are those of its partitions.

    `live` says whether a broker may be writing there; by default the directory's lock decides.
    """
    live = is_in_use(path) if live is None else live
    if live:
        text = "a broker is running on it: what it is writing was not judged"
        yield Finding(path, text, level=Level.NOTE)
    yield from _identity(path)
    for name in names.OFFSET_CHECKPOINTS:
        file = os.path.join(path, name)
        if os.path.exists(file) and not os.path.getsize(file):
            # Apache Kafka makes these files before it has anything to write.
            yield Finding(file, "the file is empty: nothing was written yet", level=Level.NOTE)
            continue
        try:
            rows = read_offsets(file)
        except CorruptCheckpointError as error:
            yield Finding(file, str(error).removeprefix(f"{file}: "), Remedy.REWRITE_CHECKPOINT)
            continue
        for key, offset in rows.items():
            report = reports.get(key)
            if report is None:
                if not os.path.isdir(os.path.join(path, names.partition_dir(*key))):
                    text = f"has a row of {key[0]}-{key[1]}, which is not there"
                    yield Finding(file, text, level=Level.NOTE)
            elif offset > report.next_offset and not live:
                text = f"says {offset} of {key[0]}-{key[1]}, whose log ends at {report.next_offset}"
                yield Finding(file, text, Remedy.REWRITE_CHECKPOINT, offset=offset)


def _identity(path: str) -> Iterator[Finding]:
    file = os.path.join(path, names.META_PROPERTIES)
    try:
        found = read_meta_properties(path)
    except (OSError, UnicodeDecodeError) as error:
        yield Finding(file, f"cannot be read: {error}", Remedy.RESTORE)
        return
    if not found:
        yield Finding(file, "no broker has claimed the directory", level=Level.NOTE)
    elif "cluster.id" not in found or not {"broker.id", "node.id"} & found.keys():
        yield Finding(file, "names no cluster.id, or no broker.id or node.id", Remedy.RESTORE)


def by_key(log_dir: str, reports: Mapping[str, PartitionReport]) -> dict[Key, PartitionReport]:
    """Return the reports of the partitions that lie in `log_dir` and are in service there."""
    found = {}
    for report in reports.values():
        partition = report.partition
        if os.path.abspath(log_dir) == partition.log_dir and partition.key is not None and in_service(partition):
            found[partition.key] = report
    return found


def in_service(partition: PartitionDir) -> bool:
    """Return whether the directory has the name of a partition in service."""
    return partition.key is not None and partition.name == names.partition_dir(*partition.key)

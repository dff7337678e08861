"""Settle the directories that moves have left when the broker starts, before it loads the logs."""

from __future__ import annotations

import logging
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from broker.log.alter_dirs.moved_from import forget_moved_from, read_moved_from
from broker.log.alter_dirs.plan import Found, settle
from broker.log.directories.checkpoints import read_partition_metadata
from broker.log.directories.log_dir import LogDir
from broker.log.files.file_ops import FileOps
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]


def settle_moves(
    log_dirs: Sequence[LogDir], offline: Collection[Path], ops: FileOps, fail: Callable[[Path, str], None]
) -> dict[TopicPartition, Path]:
    """Leave one directory of each partition as its log, and at most one future directory, whose move is resumed.

    A log directory in which that cannot be done goes offline.

    Args:
        log_dirs: the log directories that are online.
        offline: paths of the others.

    Returns:
        The future directories, by partition.
    """
    found: dict[TopicPartition, list[Found]] = defaultdict(list)
    for directory in log_dirs:
        try:
            _look(directory, found)
        except OSError as error:
            fail(directory.path, f"cannot load its logs: {error}")
    resume: dict[TopicPartition, Path] = {}
    doubtful = {key: rows for key, rows in found.items() if len(rows) > 1 or rows[0].is_future}
    synced: set[str] = set()
    for key, rows in doubtful.items():
        try:
            rows = [_with_marker(row) for row in rows]
            settlement = settle(rows, {str(path) for path in offline})
            if settlement.promote is not None or settlement.discard:
                # Names that a killed process gave may not have reached the device.
                for log_dir in {row.log_dir for row in rows} - synced:
                    ops.fsync_dir(log_dir)
                    synced.add(log_dir)
            if settlement.promote is not None:
                _rename(settlement.promote, names.partition_dir(*key), "It is complete, and its log is gone", ops)
            for row in settlement.discard:
                _rename(row, names.delete_dir(*key), "The partition was moved, or is moved to another", ops)
            if settlement.resume is not None:
                resume[key] = Path(settlement.resume.log_dir, settlement.resume.name)
        except OSError as error:
            log_dir = next(
                (row.log_dir for row in rows if str(error.filename).startswith(row.log_dir)), rows[0].log_dir
            )
            fail(Path(log_dir), f"cannot settle the moves of {key[0]}-{key[1]}: {error}")
    return resume


def forget_moves(directories: Iterable[str], ops: FileOps, fail: Callable[[Path, str], None]) -> None:
    """Remove the file `kafkalog.moved-from` of these partitions, which are served.

    Every log directory was read and forced to the device, so their old directories are gone.
    """
    for directory in directories:
        try:
            forget_moved_from(directory, ops)
        except OSError as error:
            fail(Path(directory).parent, f"cannot remove {names.MOVED_FROM}: {error}")


def read_topic_id(path: Path) -> uuid.UUID | None:
    """Read the topic id in a partition's directory; None if it cannot be read."""
    try:
        return read_partition_metadata(str(path))
    except (OSError, CorruptCheckpointError) as error:
        logger.warning("%s: %s", path, error)
        return None


def _look(directory: LogDir, found: dict[TopicPartition, list[Found]]) -> None:
    with os.scandir(directory.path) as entries:
        present = sorted(entry.name for entry in entries if entry.is_dir())
    for name in present:
        key = names.parse_partition_dir(name)
        if key is not None and not name.endswith((names.DELETE_DIR, names.STRAY_DIR)):
            found[key].append(Found(str(directory.path), name, name.endswith(names.FUTURE_DIR), None))


def _with_marker(row: Found) -> Found:
    return row._replace(moved_from=read_moved_from(os.path.join(row.log_dir, row.name)))


def _rename(row: Found, name: str, why: str, ops: FileOps) -> None:
    logger.warning("%s: renaming %s/%s to %s", why, row.log_dir, row.name, name)
    ops.rename(os.path.join(row.log_dir, row.name), os.path.join(row.log_dir, name))
    ops.fsync_dir(row.log_dir)

"""Writing one kind of offset checkpoint into all log directories, and knowing which partitions the files name.

The rows of a checkpoint name a topic, but do not say which of several topics that had this name. So before a partition
is made, the log manager asks whether a checkpoint still has a row of a deleted topic. After a crash such a row would
vouch for records of the new topic, or hide them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

from broker.log.directories.log_dir import LogDir
from broker.log.files.file_ops import NO_SPACE
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS
from broker.log.log import Log

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]
Write = Callable[[LogDir, Mapping[TopicPartition, int]], None]
"""A method of `LogDir` that writes a checkpoint. It stands for the kind of checkpoint."""


class CheckpointWriter:
    """Write checkpoints one after the other. May be used by several threads.

    Args:
        log_dirs: all log directories; those that are offline are left out.
        fail: called with the path of a directory that cannot be written to, and with the reason.
    """

    def __init__(self, log_dirs: Sequence[LogDir], fail: Callable[[Path, str], None]) -> None:
        self._log_dirs = log_dirs
        self._fail = fail
        self._writing = threading.Lock()
        self._naming = threading.Lock()
        """Held without I/O, so that `mentions` waits for no disk. Taken within `_writing`, never around it."""
        self._rows: dict[Write, Set[TopicPartition]] = {}
        self._read: dict[TopicPartition, int] = {}

    def note(self, write: Write, rows: Mapping[TopicPartition, int]) -> None:
        """Note that a file of this kind was read and has these rows."""
        self._rows[write] = self._rows.get(write, frozenset()) | rows.keys()
        for key, offset in rows.items():
            if offset > self._read.get(key, 0):
                self._read[key] = offset

    def known_offset(self, key: TopicPartition) -> int:
        """Return the largest offset of this partition in the files that were read; 0 if none has a row of it."""
        return self._read.get(key, 0)

    def mentions(self, key: TopicPartition) -> bool:
        """Return whether any file may have a row of this partition, or is being given one."""
        with self._naming:
            return any(key in rows for rows in self._rows.values())

    def write(
        self,
        write: Write,
        logs: Mapping[TopicPartition, Log],
        value: Callable[[Log], int | None],
    ) -> bool:
        """Write the rows of all logs that have a value; return whether every online log directory had room for them."""
        with self._writing:
            return self._write(write, logs, value)

    def _write(
        self,
        write: Write,
        logs: Mapping[TopicPartition, Log],
        value: Callable[[Log], int | None],
    ) -> bool:
        rows: dict[Path, dict[TopicPartition, int]] = {directory.path: {} for directory in self._log_dirs}
        with self._naming:
            for key, log in list(logs.items()):
                offset = value(log)
                if offset is not None:
                    rows[log.log_dir][key] = offset
                    if (also := log.also_in) is not None:
                        rows[also][key] = offset
            before = self._rows.get(write, frozenset())
            written = frozenset().union(*rows.values())
            # Until the files are written they have the rows of before or these.
            self._rows[write] = before | written
        still: Set[TopicPartition] = frozenset()
        full = False
        for directory in self._log_dirs:
            if directory.offline is not None:
                continue
            try:
                write(directory, rows[directory.path])
            except OSError as error:
                if error.errno not in NO_SPACE | OUT_OF_DESCRIPTORS:
                    self._fail(directory.path, f"cannot write a checkpoint: {error}")
                    continue
                # The older checkpoint is incomplete but not wrong. Appends go on when there is room again.
                logger.error(
                    "Cannot write a checkpoint in %s: %s. The one before stays in force; make room, or a crash will "
                    "have more to check", directory.path, error,
                )  # fmt: skip
                still = before
                full = True
        with self._naming:
            self._rows[write] = still | written
        return not full

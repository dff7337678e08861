"""Replicas that are not in use any more: their directories are kept for a while (`…-stray`), and then removed.

The file `kafkalog.stray` in such a directory says since when and why it is there. A directory without this file was
set aside by somebody else, and stays.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from broker.log.directories.deletions import Deletions
from broker.log.files.file_ops import FileOps, write_file_atomically
from kafkalog.storage import names, properties
from kafkalog.storage.properties import Stray

logger = logging.getLogger(__name__)


def mark_stray(directory: Path, stray: Stray, ops: FileOps) -> None:
    """Write into a partition's directory that it is about to be taken out of use. Blocks: call it on a worker's thread.

    Raises:
        OSError: the file cannot be written.
    """
    write_file_atomically(ops, os.path.join(directory, names.STRAY), properties.format_stray(stray))


def read_stray(directory: Path) -> Stray | None:
    """Return what is written in a directory; None if nothing is, or if it cannot be read."""
    try:
        return properties.parse_stray((directory / names.STRAY).read_bytes())
    except OSError:
        return None


class Strays:
    """The directories of replicas that are not in use. A loader and the event loop add them; a worker removes them.

    Args:
        ops: the file operations.
        deletions: removes directories.
    """

    def __init__(self, ops: FileOps, deletions: Deletions) -> None:
        self._ops = ops
        self._deletions = deletions
        self._known: dict[Path, Stray | None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, path: Path, stray: Stray | None) -> None:
        """Take note of a directory; `stray` is None if the directory does not say since when it is a stray."""
        self._known[path] = stray

    def remove_due(self, now_ms: int, retention_ms: int) -> list[Path]:
        """Remove the strays that were kept for long enough; return their paths. A negative time keeps them all.

        Call it on a worker's thread. Strays without a date stay.
        """
        if retention_ms < 0:
            return []
        removed = []
        for path, stray in list(self._known.items()):
            key = names.parse_partition_dir(path.name)
            if stray is None or key is None or now_ms < stray.since_ms + retention_ms:
                continue
            # The other name comes first: were the file removed first, a crash would leave the rest for good.
            doomed = path.parent / names.delete_dir(*key)
            try:
                self._ops.rename(str(path), str(doomed))
            except OSError as error:
                logger.error("The stray replica %s cannot be removed: %s", path, error)
                continue
            del self._known[path]
            self._deletions.add(doomed, now_ms)
            removed.append(path)
            logger.warning("The stray replica %s is removed; it was set aside because %s", path, stray.reason)
        return removed

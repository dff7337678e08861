"""Reading and writing ``kafkalog.moved-from`` (`kafkalog.storage.properties` has its format)."""

from __future__ import annotations

import os
from pathlib import Path

from broker.log.files.file_ops import OS, FileOps, write_file_atomically
from kafkalog.storage import names, properties


def read_moved_from(directory: str) -> str | None:
    """The log directory that the partition in ``directory`` was moved from; None where nothing says so.

    Raises:
        OSError: that cannot be read.
    """
    try:
        data = Path(directory, names.MOVED_FROM).read_bytes()
    except FileNotFoundError:
        return None
    return properties.parse_moved_from(data)


def write_moved_from(directory: str, log_dir: Path, ops: FileOps = OS) -> None:
    """Say that what is in ``directory`` is complete, and on the device. Raises OSError."""
    path = os.path.join(directory, names.MOVED_FROM)
    write_file_atomically(ops, path, properties.format_moved_from(str(log_dir)))


def forget_moved_from(directory: str, ops: FileOps = OS) -> None:
    """Remove the file, on the device too; nothing to do where there is none. Raises OSError."""
    path = os.path.join(directory, names.MOVED_FROM)
    if os.path.exists(path):
        ops.unlink(path)
        ops.fsync_dir(directory)

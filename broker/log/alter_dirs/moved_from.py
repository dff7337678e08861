"""Reading and writing the file `kafkalog.moved-from`; `kafkalog.storage.properties` describes the format."""

from __future__ import annotations

import os
from pathlib import Path

from broker.log.files.file_ops import OS, FileOps, write_file_atomically
from kafkalog.storage import names, properties


def read_moved_from(directory: str) -> str | None:
    """Read from which log directory the partition in `directory` was moved; None if there is no such file.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        data = Path(directory, names.MOVED_FROM).read_bytes()
    except FileNotFoundError:
        return None
    return properties.parse_moved_from(data)


def write_moved_from(directory: str, log_dir: Path, ops: FileOps = OS) -> None:
    """Mark the copy in `directory` as complete and on the device.

    Raises:
        OSError: the file cannot be written.
    """
    path = os.path.join(directory, names.MOVED_FROM)
    write_file_atomically(ops, path, properties.format_moved_from(str(log_dir)))


def forget_moved_from(directory: str, ops: FileOps = OS) -> None:
    """Remove the file, if there is one, on the device too.

    Raises:
        OSError: the file cannot be removed, or the directory not be forced.
    """
    path = os.path.join(directory, names.MOVED_FROM)
    if os.path.exists(path):
        ops.unlink(path)
        ops.fsync_dir(directory)

"""``kafkalog.moved-from``: in a directory that a move made, and complete, the log directory that it is moved from.

Two lines, ``version: 0`` and ``log_dir: <absolute path>``. It is on the device before the directory may take its log's
place, and removed when the old directory's new name is on the device, too. Apache Kafka ignores it.
"""

from __future__ import annotations

import os
from pathlib import Path

from broker.log.file_ops import OS, FileOps, write_file_atomically
from kafkalog.storage import names

VERSION = "0"


def read_moved_from(directory: str) -> str | None:
    """The log directory that the partition in ``directory`` was moved from; None where nothing says so.

    Raises:
        OSError: that cannot be read.
    """
    try:
        text = Path(directory, names.MOVED_FROM).read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return values.get("log_dir") if values.get("version") == VERSION else None


def write_moved_from(directory: str, log_dir: Path, ops: FileOps = OS) -> None:
    """Say that what is in ``directory`` is complete, and on the device. Raises OSError."""
    text = f"version: {VERSION}\nlog_dir: {log_dir}\n"
    write_file_atomically(ops, os.path.join(directory, names.MOVED_FROM), text.encode(errors="surrogateescape"))


def forget_moved_from(directory: str, ops: FileOps = OS) -> None:
    """Remove the file, on the device too; nothing to do where there is none. Raises OSError."""
    path = os.path.join(directory, names.MOVED_FROM)
    if os.path.exists(path):
        ops.unlink(path)
        ops.fsync_dir(directory)

"""Reading and writing producer snapshots, `.snapshot`; `kafkalog.storage.snapshots` describes the format."""

from __future__ import annotations

import os
from collections.abc import Iterable

from broker.log.files.file_ops import OS, FileOps, write_all
from kafkalog.storage.snapshots import SnapshotEntry, decode, encode


def read(path: str) -> list[SnapshotEntry]:
    """Read the rows of the snapshot file at `path`.

    Raises:
        CorruptSnapshotError: it is no valid snapshot.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return decode(file.read())


def write(path: str, entries: Iterable[SnapshotEntry], *, sync: bool, ops: FileOps = OS) -> None:
    """Write a snapshot file; with `sync` force it to the device. Its CRC reveals a torn file.

    Raises:
        OSError: it could not be written. It is removed, because a full disk needs its blocks.
    """
    fd = ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(ops, fd, encode(entries), 0)
        if sync:
            ops.fsync(fd)
    except OSError:
        ops.unlink(path)
        raise
    finally:
        os.close(fd)

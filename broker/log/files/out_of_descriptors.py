"""Opening files when the process has no descriptor left: the log closes some of its own files and tries again.

Connections leave a reserve of descriptors to the log, but the files that the log keeps open may use it up. A file that
is opened for a moment, to write an index or to force a directory to the device, must not fail because of that.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from broker.log.files.file_ops import FileOps
from broker.log.files.open_files import OpenFiles

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of an open that do not mean that the disk failed."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def with_room(open_files: OpenFiles, act: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `act`; close files of `open_files` and call it again while it finds no descriptor left.

    Raises:
        OSError: `act` failed for another reason, or there is nothing more to close.
    """
    while True:
        try:
            return act(*args)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not open_files.make_room():
                raise


def check_descriptors(ops: FileOps, directory: str, count: int) -> None:
    """Check that `count` more files can be open at once, before work that must not stop half way.

    Another thread may take them meanwhile. That is unlikely: connections leave more than that to the log.

    Raises:
        OSError: they cannot.
    """
    opened: list[int] = []
    try:
        # Kept as they come, because a later one may fail.
        opened.extend(ops.open(directory, os.O_RDONLY) for _ in range(count))
    finally:
        for fd in opened:
            os.close(fd)


class RoomMakingOps(FileOps):
    """Pass every call on to `ops`; close files of `open_files` when an open finds no descriptor left."""

    __slots__ = ("_open_files", "_ops", "fsync", "ftruncate", "mkdir", "pwrite", "rename", "rmtree", "unlink")

    def __init__(self, ops: FileOps, open_files: OpenFiles) -> None:
        self._ops = ops
        self._open_files = open_files
        # The calls themselves, without a Python frame around them.
        for name in ("fsync", "ftruncate", "mkdir", "pwrite", "rename", "rmtree", "unlink"):
            setattr(self, name, getattr(ops, name))

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        return with_room(self._open_files, self._ops.open, path, flags, mode)

    def fsync_dir(self, path: str) -> None:
        with_room(self._open_files, self._ops.fsync_dir, path)

"""Opening files when the process has no descriptor left: the log closes some of its own files and tries again.

Connections leave a reserve of descriptors to the log, but the files that the log keeps open may use it up. A file that
is opened for a moment, to write an index or to force a directory to the device, must not fail because of that.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from broker.log.files.file_ops import FileOps
from broker.log.files.open_files import OpenFiles

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of an open that do not mean that the disk failed."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RoomMakingOps(FileOps):
    """Pass every call on to ``ops``; close files of ``open_files`` when an open finds no descriptor left."""

    __slots__ = ("_open_files", "_ops", "fsync", "ftruncate", "mkdir", "pwrite", "rename", "rmtree", "unlink")

    def __init__(self, ops: FileOps, open_files: OpenFiles) -> None:
        self._ops = ops
        self._open_files = open_files
        # The calls themselves, without a Python frame around them.
        for name in ("fsync", "ftruncate", "mkdir", "pwrite", "rename", "rmtree", "unlink"):
            setattr(self, name, getattr(ops, name))

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        return self._with_room(self._ops.open, path, flags, mode)

    def fsync_dir(self, path: str) -> None:
        self._with_room(self._ops.fsync_dir, path)

    def _with_room(self, act: Callable[[*Ts], T], *args: *Ts) -> T:
        while True:
            try:
                return act(*args)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._open_files.make_room():
                    raise

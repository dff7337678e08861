"""The transaction index: which transactions that touch a segment were aborted.

File ``<base offset>.txnindex``, present only where a transaction was aborted, entries of 34 bytes,
big-endian::

     0  int16  version, 0
     2  int64  producer id
    10  int64  first offset of the transaction
    18  int64  last offset: that of the abort marker, which lies in this segment
    26  int64  last stable offset when the marker was written

Entries are in the order of their last offset. A reader of committed records that fetches [from, to) needs
those whose last offset is at or after ``from`` and whose first offset is before ``to``; it may stop at the
first entry whose last stable offset is at or after ``to``. Rebuilt with the segment after an unclean stop.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

from broker.log.file_ops import OS, FileOps, write_all
from broker.log.index_file import CorruptIndexError

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
VERSION = 0


class AbortedTransaction(NamedTuple):
    """One row of the index; all offsets inclusive but the last stable one."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The rows of one segment's file. Rows are few, so they are read and written whole."""

    __slots__ = ("_ops", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, ops: FileOps = OS) -> None:
        self.path = path
        self.base_offset = base_offset
        self._ops = ops

    def append(self, transaction: AbortedTransaction) -> bool:
        """Add a row at the end; whether it is the first, so that the file may be new.

        Raises:
            CorruptIndexError: its last offset does not follow the last row's.
        """
        rows = self.items()
        if rows and rows[-1].last_offset >= transaction.last_offset:
            raise CorruptIndexError(f"{self.path}: {transaction} does not follow {rows[-1]}")
        fd = self._ops.open(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            write_all(self._ops, fd, _ENTRY.pack(VERSION, *transaction), len(rows) * ENTRY_SIZE)
        finally:
            os.close(fd)
        return not rows

    def items(self) -> list[AbortedTransaction]:
        """Every row, in order; empty when there is no file.

        Raises:
            CorruptIndexError: a row of an unknown version, or one that ends before the segment begins.
        """
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return []
        rows = []
        for version, *values in _ENTRY.iter_unpack(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]):
            row = AbortedTransaction(*values)
            if version != VERSION:
                raise CorruptIndexError(f"{self.path}: version {version} of an aborted transaction")
            if row.last_offset < self.base_offset:
                raise CorruptIndexError(f"{self.path}: {row} ends before the segment at {self.base_offset} begins")
            rows.append(row)
        return rows

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Rows that touch offsets [start, end), and whether later segments need not be asked."""
        found = []
        for row in self.items():
            if row.last_offset >= start and row.first_offset < end:
                found.append(row)
            if row.last_stable_offset >= end:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the rows of transactions that ended at or after ``offset``."""
        rows = self.items()
        keep = sum(row.last_offset < offset for row in rows)
        if keep < len(rows):
            self._set_size(keep * ENTRY_SIZE)

    def reset(self) -> None:
        """Drop every row: the start of a rebuild."""
        if os.path.exists(self.path):
            self._set_size(0)

    def sync(self) -> None:
        """Force the file to the device, if there is one."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self._ops.fsync(fd)
        finally:
            os.close(fd)

    def _set_size(self, size: int) -> None:
        fd = self._ops.open(self.path, os.O_RDWR)
        try:
            self._ops.ftruncate(fd, size)
        finally:
            os.close(fd)

"""The transaction index of a segment, `.txnindex`; `kafkalog.storage.transaction_entries` describes the format."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence

from broker.log.files.file_ops import OS, FileOps, write_all, write_file_atomically
from broker.log.index.index_file import CorruptIndexError
from broker.log.log_config import MAX_LONG
from kafkalog.storage.transaction_entries import (
    ENTRY_SIZE,
    AbortedTransaction,
    CorruptEntryError,
    encode_aborted,
    parse_aborted,
)  # fmt: skip

ROWS_AT_ONCE = 500
"""The number of rows that a look-up reads at a time."""


class TransactionIndex:
    """Read and write the rows of one segment's file.

    A client may abort so many transactions that a file has hundreds of thousands of rows. Look-ups and additions, which
    the event loop makes, read those that they need.
    """

    __slots__ = ("_ops", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, ops: FileOps = OS) -> None:
        self.path = path
        self.base_offset = base_offset
        self._ops = ops

    def append(self, transaction: AbortedTransaction) -> bool:
        """Add a row at the end; return whether it is the first one, so that the file may be new.

        Raises:
            CorruptIndexError: its last offset does not come after the last row's, or that row is damaged.
        """
        fd = self._ops.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            count = os.fstat(fd).st_size // ENTRY_SIZE
            if count:
                (last,) = self._read(fd, count - 1, 1)
                if last.last_offset >= transaction.last_offset:
                    raise CorruptIndexError(f"{self.path}: {transaction} does not follow {last}")
            write_all(self._ops, fd, encode_aborted(transaction), count * ENTRY_SIZE)
        finally:
            os.close(fd)
        return not count

    def spoil(self) -> None:
        """Add a row that no reader accepts: the file lacks a row, and whoever needs it has to build the file anew.

        Raises:
            OSError: it cannot be written.
        """
        fd = self._ops.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            count = os.fstat(fd).st_size // ENTRY_SIZE
            write_all(self._ops, fd, encode_aborted(AbortedTransaction(-1, -1, -1, -1)), count * ENTRY_SIZE)
        finally:
            os.close(fd)

    def replace(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Put these rows in the place of all; a crash leaves the old or the new ones.

        Raises:
            OSError: the file cannot be written; it has not changed.
        """
        if transactions or os.path.exists(self.path):
            write_file_atomically(self._ops, self.path, b"".join(map(encode_aborted, transactions)))

    def items(self) -> list[AbortedTransaction]:
        """Return every row, in order; none when there is no file.

        Raises:
            CorruptIndexError: a row has an unknown version, or ends before the segment begins.
        """
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return []
        return self._parse(data)

    def collect(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the rows that touch offsets [start, end), and whether later segments need not be searched.

        Raises:
            CorruptIndexError: a row that was read is damaged.
        """
        found: list[AbortedTransaction] = []
        try:
            fd = self._ops.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return found, False
        try:
            count = os.fstat(fd).st_size // ENTRY_SIZE
            at = bisect_left(range(count), start, key=lambda row: self._last_offset(fd, row))
            # The log may be truncated meanwhile.
            while at < count and (rows := self._read(fd, at, ROWS_AT_ONCE)):
                for row in rows:
                    if row.first_offset < end:
                        found.append(row)
                    if row.last_stable_offset >= end:
                        return found, True
                at += len(rows)
        finally:
            os.close(fd)
        return found, False

    def _last_offset(self, fd: int, row: int) -> int:
        """Return the last offset of a row; the largest offset for a row that is gone."""
        found = self._read(fd, row, 1)
        return found[0].last_offset if found else MAX_LONG

    def _read(self, fd: int, first: int, count: int) -> list[AbortedTransaction]:
        return self._parse(os.pread(fd, count * ENTRY_SIZE, first * ENTRY_SIZE))

    def _parse(self, data: bytes) -> list[AbortedTransaction]:
        try:
            return parse_aborted(data, self.base_offset)
        except CorruptEntryError as error:
            raise CorruptIndexError(f"{self.path}: {error}") from error

    def truncate_to(self, offset: int) -> None:
        """Remove the rows of transactions that ended at or after `offset`."""
        rows = self.items()
        keep = sum(row.last_offset < offset for row in rows)
        if keep < len(rows):
            self._set_size(keep * ENTRY_SIZE)

    def reset(self) -> None:
        """Remove every row, to begin a rebuild."""
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

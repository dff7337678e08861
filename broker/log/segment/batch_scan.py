"""Walk over the batches of an open `.log` file by positioned reads; `kafkalog.storage.batch_walk` has the walks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from kafkalog.records.batch import MAGIC, MAGIC_AT, BatchHeader
from kafkalog.records.errors import CorruptRecordError
from kafkalog.storage import batch_walk


def find_batch(
    fd: int, position: int, end: int, offset: int, *, pread: Callable[[int, int, int], bytes] = os.pread
) -> tuple[int, int, int] | None:
    """Call `batch_walk.find_batch`; `pread` reads as `os.pread` does, and its exceptions are passed on."""
    return batch_walk.find_batch(partial(pread, fd), position, end, offset)


def may_be_found(
    fd: int, base_offset: int, size: int, offset: int, start: int, found: tuple[int, int, int] | None
) -> bool:
    """Return whether a look-up of `offset` that an index led to position `start` may end with `found`.

    An index entry is never later than the offset, so the batch that it leads to cannot begin after the offset. If it
    does, or if there is no batch at `start`, the index does not fit the log.

    Args:
        base_offset: of the segment.
        size: bytes of the segment's batches.
        found: what `find_batch` returned.
    """
    if start == 0:
        return True
    if start >= size:
        return False
    if found is None:
        base = int.from_bytes(os.pread(fd, 8, start), "big")
        return base_offset <= base <= offset
    if found[1] != start or found[0] <= offset:
        return True
    # Messages of v0 and v1 carry their last offset only.
    return os.pread(fd, 1, start + MAGIC_AT) < bytes([MAGIC])


def batch_size(fd: int, position: int, end: int) -> int:
    """Call `batch_walk.batch_size`."""
    return batch_walk.batch_size(partial(os.pread, fd), position, end)


def headers(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Call `batch_walk.headers`."""
    return batch_walk.headers(partial(os.pread, fd), position, end)


def last_end(fd: int, position: int, end: int, base_offset: int) -> tuple[int, int]:
    """Return position and offset after the last whole batch; `position` and `base_offset` if there is none.

    Raises:
        CorruptRecordError: a batch is no batch, or states offsets from before those of an earlier one. No checksum
            covers its base offset.
    """
    following = base_offset
    for at, header in headers(fd, position, end):
        if header.last_offset < following:
            raise CorruptRecordError(f"offset {header.last_offset} at position {at} does not follow {following - 1}")
        position, following = at + header.size, header.next_offset
    return position, following


def latest_timestamp(fd: int, position: int, end: int, known: tuple[int, int]) -> tuple[int, int]:
    """Return the largest timestamp and its batch's last offset, of `known` and the batches from `position` on."""
    timestamp, offset = known
    for _, header in headers(fd, position, end):
        if header.max_timestamp > timestamp:
            timestamp, offset = header.max_timestamp, header.last_offset
    return timestamp, offset


def verified_batches(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Call `batch_walk.verified_batches`."""
    return batch_walk.verified_batches(partial(_fill, fd), position, end)


def is_zero(fd: int, position: int, end: int) -> bool:
    """Call `batch_walk.is_zero`."""
    return batch_walk.is_zero(partial(os.pread, fd), position, end)


def _fill(fd: int, view: memoryview, position: int) -> int:
    filled = 0
    while filled < len(view):
        count = os.preadv(fd, [view[filled:]], position + filled)
        if count == 0:
            break
        filled += count
    return filled

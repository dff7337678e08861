"""The walks of `kafkalog.storage.batch_walk` over an open ``.log`` file, by positioned reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from kafkalog.records.batch import MAGIC, MAGIC_AT, BatchHeader
from kafkalog.storage import batch_walk


def find_batch(
    fd: int, position: int, end: int, offset: int, *, pread: Callable[[int, int, int], bytes] = os.pread
) -> tuple[int, int, int] | None:
    """`batch_walk.find_batch`; ``pread`` reads as ``os.pread`` does, and what it raises is passed on."""
    return batch_walk.find_batch(partial(pread, fd), position, end, offset)


def may_be_found(
    fd: int, base_offset: int, size: int, offset: int, start: int, found: tuple[int, int, int] | None
) -> bool:
    """Return whether a look-up of ``offset`` that an index led to position ``start`` may end with ``found``.

    An index entry is never later than the offset, so the batch that it leads to cannot begin after the offset. If it
    does, or if there is no batch at ``start``, the index does not fit the log.

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
    """`batch_walk.batch_size`."""
    return batch_walk.batch_size(partial(os.pread, fd), position, end)


def headers(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """`batch_walk.headers`."""
    return batch_walk.headers(partial(os.pread, fd), position, end)


def verified_batches(fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """`batch_walk.verified_batches`."""
    return batch_walk.verified_batches(partial(_fill, fd), position, end)


def is_zero(fd: int, position: int, end: int) -> bool:
    """`batch_walk.is_zero`."""
    return batch_walk.is_zero(partial(os.pread, fd), position, end)


def _fill(fd: int, view: memoryview, position: int) -> int:
    filled = 0
    while filled < len(view):
        count = os.preadv(fd, [view[filled:]], position + filled)
        if count == 0:
            break
        filled += count
    return filled

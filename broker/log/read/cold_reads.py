"""Reads that a worker must do before the event loop can search a segment without waiting for the disk.

Each function returns one step without waiting for the disk: first an index file, then the part of the log to which the
index leads. Let a worker do the step, and call the function again until it returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.log.segment.batch_scan import find_batch
from broker.log.segment.segment import Segment
from broker.system import page_cache
from kafkalog.records.errors import CorruptRecordError
from kafkalog.storage import names

LOOK_UP_BYTES = 32 << 10
"""Bytes to read at a header that is not in memory, unless the reader wants more."""
SEARCH_BYTES = 256 << 10
"""Bytes of the log that a search for a timestamp reads, except for larger batches."""

Step = Callable[[], None]


def missing(segment: Segment, offset: int, max_bytes: int) -> Step | None:
    """Return the next step before `segment.read(offset, max_bytes, ...)`; None if nothing is missing.

    Raises:
        CorruptIndexError, RecordsError, OSError: as the read would.
    """
    if segment.positions.remembers(offset):
        return None
    path = segment.indexes.on_disk(names.INDEX)
    if path is not None:
        return partial(page_cache.read_in_file, path)
    start = at = segment.offset_index.lookup(offset)[1]
    file = segment.file

    def pread(fd: int, length: int, position: int) -> bytes:
        nonlocal at
        at = position
        return page_cache.pread_resident(fd, length, position)

    try:
        found = find_batch(file.fd, at, segment.size, offset, pread=pread)
    except BlockingIOError:
        length = min(max(LOOK_UP_BYTES, max_bytes), segment.size - at)
        file.missed(at, length)
        # Keep the file itself: its descriptor may belong to another file by then.
        return lambda: page_cache.read_in(file.fd, at, length)
    except CorruptRecordError:
        # The index may be wrong; the read itself finds that out.
        return None
    if found is not None and segment.fits(offset, start, found):
        segment.positions.note_found(offset, found[1])
    return None


def missing_for_time(segment: Segment, timestamp: int, start_offset: int) -> Step | None:
    """Return the next step before `time_search.find_in_segment`; None if nothing is missing.

    Raises:
        CorruptIndexError, RecordsError, OSError: as the search would.
    """
    path = segment.indexes.on_disk(names.TIME_INDEX, names.INDEX)
    if path is not None:
        return partial(page_cache.read_in_file, path)
    offset = max(segment.time_index.lookup(timestamp)[1], start_offset)
    position = segment.offset_index.lookup(offset)[1]
    file = segment.file
    length = min(SEARCH_BYTES, segment.size - position)
    if page_cache.resident(file.fd, position, length):
        return None
    return lambda: page_cache.read_in(file.fd, position, length)

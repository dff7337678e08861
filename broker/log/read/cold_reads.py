"""Reads that a worker must do before the event loop can search a segment without waiting for the disk.

Each function returns one step without waiting for the disk: first an index file, then the part of the log to which the
index leads. Let a worker do the step, and call the function again until it returns None. If an index is missing or
damaged, or does not fit the log, a step walks over the whole log, and the next call writes both indexes anew. That call
walks over what was appended meanwhile, unless it is so much that a worker has to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.log.index.index_file import CorruptIndexError
from broker.log.segment.batch_scan import find_batch
from broker.log.segment.index_scan import misfit
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
    if (step := _missing_of_indexes(segment, names.INDEX)) is not None:
        return step
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
        is_wrong = start > 0
    else:
        is_wrong = not segment.fits(offset, start, found)
        if found is not None and not is_wrong:
            segment.positions.note_found(offset, found[1])
    if is_wrong and not segment.rebuilt:
        return _scan(segment, misfit(segment.path(names.INDEX), offset, start))
    # The read itself reports a damaged log.
    return None


def missing_for_cut(segment: Segment, offset: int) -> Step | None:
    """Return the next step before `find_cut(segment, offset)` can do without a walk over the whole log, or None.

    It does not ask what is in memory: a cut reads little, and a broker that comes back may have many to make.

    Raises:
        CorruptIndexError, RecordsError, OSError: as `find_cut` would.
    """
    if (step := _next_of_scan(segment)) is not None:
        return step
    try:
        _load(segment, names.INDEX, names.TIME_INDEX)
    except (CorruptIndexError, FileNotFoundError) as error:
        return _scan(segment, error)
    if segment.rebuilt or segment.positions.remembers(offset):
        return None
    file, start = segment.file, segment.offset_index.lookup(offset)[1]
    try:
        is_wrong = not segment.fits(offset, start, find_batch(file.fd, start, segment.size, offset))
    except CorruptRecordError:
        is_wrong = start > 0
    return _scan(segment, misfit(segment.path(names.INDEX), offset, start)) if is_wrong else None


def missing_for_time(segment: Segment, timestamp: int, start_offset: int) -> Step | None:
    """Return the next step before `time_search.find_in_segment`; None if nothing is missing.

    Raises:
        CorruptIndexError, RecordsError, OSError: as the search would.
    """
    if (step := _missing_of_indexes(segment, names.TIME_INDEX, names.INDEX)) is not None:
        return step
    offset = max(segment.time_index.lookup(timestamp)[1], start_offset)
    position = segment.offset_index.lookup(offset)[1]
    file = segment.file
    length = min(SEARCH_BYTES, segment.size - position)
    if page_cache.resident(file.fd, position, length):
        return None
    return lambda: page_cache.read_in(file.fd, position, length)


def lacks_index(segment: Segment) -> bool:
    """Return whether the offset index must be built anew from the log before a search."""
    try:
        _load(segment, names.INDEX)
    except (CorruptIndexError, FileNotFoundError):
        return True
    return False


def _missing_of_indexes(segment: Segment, *kinds: str) -> Step | None:
    """Return the next step before these indexes (`names.INDEX`, `TIME_INDEX`) can be searched; None if they can."""
    if (step := _next_of_scan(segment)) is not None:
        return step
    path = segment.indexes.on_disk(*kinds)
    if path is not None:
        return partial(page_cache.read_in_file, path)
    try:
        _load(segment, *kinds)
    except (CorruptIndexError, FileNotFoundError) as error:
        return _scan(segment, error)
    return None


def _next_of_scan(segment: Segment) -> Step | None:
    """Return the next step of a scan that was begun; None once both indexes are written, or without a scan."""
    indexes = segment.indexes
    scan, indexes.scan = indexes.scan, None
    # An append may have come in between; it has loaded the indexes, and built them anew if it had to.
    if scan is not None and scan.builds == indexes.builds:
        if scan.done and segment.size - scan.size > SEARCH_BYTES:
            scan.grow(segment.size)
        if not scan.done:
            indexes.scan = scan
            return scan.run
        scan.grow(segment.size)
        segment.rebuild_indexes(scan)
    return None


def _load(segment: Segment, *kinds: str) -> None:
    """Load these indexes unless they are loaded. Raises as `SegmentIndexes.load_offset` and `load_time` do."""
    indexes, config = segment.indexes, segment.config
    if names.INDEX in kinds and indexes.offset is None:
        indexes.load_offset(config, segment.size)
    if names.TIME_INDEX in kinds and indexes.time is None:
        indexes.load_time(config.segment_index_bytes)


def _scan(segment: Segment, reason: object) -> Step:
    """Return the step that scans the log, so that `_missing_of_indexes` can build both indexes anew."""
    scan = segment.indexes.scan = segment.scan_log(reason)
    return scan.run

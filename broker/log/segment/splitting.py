"""Splitting a segment whose offsets span more than its indexes can hold.

An index entry stores an offset relative to the segment's base offset, in 31 bits. Old brokers of Apache Kafka did not
heed this when a compaction merged segments. Such a segment may have batches that no entry can name, so it cannot be
compacted. As in Apache Kafka, several segments replace it: each begins with the first batch that the one before it
cannot hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from broker.log.index.index_file import CorruptIndexError
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from broker.log.segment.batch_scan import headers, verified_batches
from broker.log.segment.segment import Segment
from kafkalog.records.batch import MAGIC, BatchHeader
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET
from kafkalog.storage.transaction_entries import AbortedTransaction

COPY_BYTES = 1 << 20
"""Bytes that are copied at a time."""


class Part(NamedTuple):
    """The batches of a segment that become one segment."""

    base_offset: int
    """The base offset of the new segment. The first part keeps that of the whole, even if no batch fits it."""
    position: int
    """The position of its first batch."""
    end: int
    """The position after its last batch."""


def parts_of(segment: Segment, *, to_damage: bool = False) -> list[Part]:
    """Return the parts into which a segment has to be split; a single one if its indexes can hold every offset.

    Args:
        to_damage: verify checksums, and let the last part end with what is damaged, instead of raising an error for it.
            A damaged batch must not name a segment: a recovery would cut it off, and go on at the offset it states.

    Raises:
        CorruptRecordError: a single batch has offsets that are far too large, or bytes are no batches.
        OSError: the segment cannot be read.
    """
    starts = [(segment.base_offset, 0)]
    file = segment.file
    walked: Iterator[tuple[int, BatchHeader]] = headers(file.fd, 0, segment.size)
    if to_damage:
        walked = ((position, header) for position, header, _ in verified_batches(file.fd, 0, segment.size))
    try:
        _walk(segment, walked, starts)
    except _JumpError:
        raise
    except RecordsError:
        if not to_damage:
            raise
    ends = [position for _, position in starts[1:]] + [segment.size]
    return [Part(base, position, end) for (base, position), end in zip(starts, ends, strict=True)]


class _JumpError(CorruptRecordError):
    """One batch has offsets that are too large. The batches after it go on where it should have begun."""


def _walk(segment: Segment, walked: Iterable[tuple[int, BatchHeader]], starts: list[tuple[int, int]]) -> None:
    """Add the base offset and position of each further part to `starts`."""
    path, end, expected, jump_from = segment.path(names.LOG), 0, segment.base_offset, -1
    for position, header in walked:
        if header.last_offset < expected:
            if expected > header.base_offset >= jump_from >= 0:
                raise _JumpError(f"{path}: the batch before position {position} has offsets that are far too large")
            raise CorruptRecordError(f"{path}: offset {header.last_offset} at position {position} is before {expected}")
        jump_from = -1
        if header.last_offset - starts[-1][0] > MAX_RELATIVE_OFFSET:
            # A message of v0 or v1 states its last offset only. Its first one is not before the end of the others.
            first = header.base_offset
            if header.magic < MAGIC:
                first = max(expected, header.last_offset - MAX_RELATIVE_OFFSET)
            starts.append((first, position))
            jump_from = expected
        expected, end = header.next_offset, position + header.size
    if end < segment.size:
        raise CorruptRecordError(f"{path}: no whole batch at position {end}")


def write_parts(
    segment: Segment,
    parts: Sequence[Part],
    aborted: Iterable[AbortedTransaction],
    config: LogConfig,
    now_ms: int,
    resources: LogResources,
    wait: Callable[[int], None] = lambda size: None,
) -> list[Segment]:
    """Copy each part to a new segment, whose files end with `.cleaned`, and force them to the device.

    `Log.replace_segments` or the recovery puts them in place of `segment`.

    Args:
        parts: what `parts_of` returned.
        aborted: the aborted transactions whose markers are in `segment`.
        wait: called with the number of bytes that were copied.

    Raises:
        CorruptRecordError: the segment is shorter by now.
        OSError: the disk failed. No new file is left, if they can be removed.
    """
    made: list[Segment] = []
    rows = list(aborted)
    config = config.with_changes(preallocate=False)
    modified = os.stat(segment.path(names.LOG)).st_mtime_ns
    bounds = [*(part.base_offset for part in parts[1:]), None]
    try:
        for part, bound in zip(parts, bounds, strict=True):
            new = Segment.create(segment.directory, part.base_offset, config, now_ms, resources, suffix=names.CLEANED)
            made.append(new)
            _copy(segment, part, new, wait)
            for row in rows:
                if part.base_offset <= row.last_offset and (bound is None or row.last_offset < bound):
                    new.aborted.add(row)
            new.finish()
            os.utime(new.path(names.LOG), ns=(modified, modified))
            new.flush()
        resources.ops.fsync_dir(segment.directory)
    except BaseException:
        for new in made:
            new.discard()
        raise
    return made


def _copy(segment: Segment, part: Part, new: Segment, wait: Callable[[int], None]) -> None:
    file = segment.file
    position = part.position
    while position < part.end:
        data = os.pread(file.fd, min(COPY_BYTES, part.end - position), position)
        if not data:
            raise CorruptRecordError(f"{segment.path(names.LOG)} ends at {position}, before {part.end}")
        new.write(memoryview(data))
        position += len(data)
        wait(len(data))
    # `parts_of` has told of damage, unless the recovery cuts it off. The recovery makes the indexes anew.
    with suppress(RecordsError, CorruptIndexError):
        for at, header in headers(new.file.fd, 0, new.size):
            new.note_batch(at, header.size, header.base_offset, header.last_offset, header.max_timestamp)

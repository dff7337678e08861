"""Bytes per offset, as the first batches of a fetch tell them, for the estimates of `plan.byte_sizes`.

A record batch of v2 has its size and offsets in its header. So has a message of v0 or v1 that is not compressed. A
wrapper of these formats tells only its last offset: the one before it is that of the wrapper before, or else stands
within.
"""

from __future__ import annotations

from itertools import islice
from struct import Struct

from kafkalog.records.batch import LOG_OVERHEAD, MAGIC, MAGIC_AT, BatchHeader
from kafkalog.records.errors import RecordsError
from kafkalog.records.legacy.message_set import MIN_SIZES, UNKNOWN_COUNT, iter_entries, wrapped_set

MOST_UNPACKED = 16 << 20
"""The most bytes that a wrapper may expand to: a larger one tells nothing."""
_V2 = Struct(">qi11xi")
"""Base offset, length and last offset delta of a record batch."""
_ENTRY = Struct(">qi")
"""Offset and size of a message."""


def batch_density(records: memoryview | None, offset: int) -> float | None:
    """Return bytes per offset of the first batch that a fetch from `offset` returned; None if it does not tell.

    Returns 0 if the first batch begins behind the offset: compaction has left nothing there.
    """
    if records is None or len(records) < _V2.size or records[MAGIC_AT] > MAGIC:
        return None
    if records[MAGIC_AT] < MAGIC:
        try:
            return _old_density(records, offset)
        except RecordsError:
            return None
    base_offset, length, last_delta = _V2.unpack_from(records)
    if base_offset > offset:
        return 0.0
    return (LOG_OVERHEAD + length) / (last_delta + 1) if length > 0 and last_delta >= 0 else None


def _old_density(records: memoryview, offset: int) -> float | None:
    """Return the density of messages of v0 or v1.

    Raises:
        RecordsError: They are damaged, or expand too far.
    """
    entries = list(islice(iter_entries(records), 2))
    if not entries:
        return None
    (at, first), second = entries[0], entries[-1][1]
    if first.records_count != UNKNOWN_COUNT:
        return 0.0 if first.base_offset > offset else float(first.size)
    if second.base_offset > first.base_offset:
        # To decompress a wrapper costs far more than this, and the next one is most often like it.
        return second.size / (second.base_offset - first.base_offset)
    return first.size / _offsets_within(records, at, first)


def _offsets_within(records: memoryview, at: int, wrapper: BatchHeader) -> int:
    """Return the number of offsets from the first message in a wrapper to the last, at least 1.

    Raises:
        RecordsError: The wrapper is damaged, or expands too far.
    """
    unpacked = wrapped_set(records, at, wrapper, max_size=MOST_UNPACKED)
    position, offsets = 0, list[int]()
    while position + _ENTRY.size <= len(unpacked):
        offset, size = _ENTRY.unpack_from(unpacked, position)
        offsets = [*offsets[:1], offset]
        position += LOG_OVERHEAD + max(size, MIN_SIZES[0])
    return max(offsets[-1] - offsets[0] + 1, 1) if offsets else 1

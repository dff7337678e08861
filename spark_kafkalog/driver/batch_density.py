"""Bytes per offset, as the first batches of a fetch tell them, for the estimates of `plan.byte_sizes`.

A record batch of v2 has its size and offsets in its header. So has a message of v0 or v1 that is not compressed. A
wrapper of these formats tells only its last offset: the one before it is that of the wrapper before, or else stands
within.
"""

from __future__ import annotations

from itertools import islice

from kafkalog.records.any_format import read_any_header
from kafkalog.records.batch import MAGIC, BatchHeader
from kafkalog.records.errors import RecordsError
from kafkalog.records.legacy.message_set import UNKNOWN_COUNT, entries_within, iter_entries

MOST_UNPACKED = 16 << 20
"""The most bytes that a wrapper may expand to: a larger one tells nothing."""


def batch_density(records: memoryview | None, offset: int) -> float | None:
    """Return bytes per offset of the first batch that a fetch from `offset` returned; None if it does not tell.

    Returns 0 if the first batch begins behind the offset: compaction has left nothing there.
    """
    if records is None:
        return None
    try:
        first = read_any_header(records)
        if first.magic < MAGIC:
            return _old_density(records, offset)
    except RecordsError:
        return None
    if first.base_offset > offset:
        return 0.0
    return first.size / (first.last_offset_delta + 1) if first.last_offset_delta >= 0 else None


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
    _, entries = entries_within(records, at, wrapper, max_size=MOST_UNPACKED)
    return max(entries[-1][1].base_offset - entries[0][1].base_offset + 1, 1) if entries else 1

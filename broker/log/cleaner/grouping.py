"""Group the segments that are cleaned into one. Pure.

Segments shrink each time they are cleaned. So that they do not become very many small ones, neighbours that fit into
one segment together are written to one. They fit by the bytes of their logs and of their indexes, and by their offsets,
which must be relative to the first one's base offset. The number of segments is bounded, too, because their files are
renamed in one turn of the event loop: very many tiny segments become few, and one when they are cleaned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

MOST_MEMBERS = 64
"""Most segments that become one: some 250 files are renamed, which takes a few milliseconds."""


class SegmentSize(NamedTuple):
    """Hold the sizes of a segment's files, in bytes."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


def group(
    segments: Sequence[SegmentSize], *, max_log_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[range]:
    """Return the ranges of indexes into `segments`, in order, each of which becomes one segment.

    A segment ends where the next one begins; `first_uncleanable_offset` ends the last one.
    """
    groups: list[range] = []
    start = 0
    while start < len(segments):
        stop = start + 1
        log_bytes, index_bytes, time_index_bytes = segments[start][1:]
        while stop < len(segments):
            segment = segments[stop]
            log_bytes += segment.log_bytes
            index_bytes += segment.index_bytes
            time_index_bytes += segment.time_index_bytes
            following = segments[stop + 1].base_offset if stop + 1 < len(segments) else first_uncleanable_offset
            too_far = following - 1 - segments[start].base_offset > MAX_RELATIVE_OFFSET
            if (
                stop - start >= MOST_MEMBERS
                or log_bytes > max_log_bytes
                or max(index_bytes, time_index_bytes) > max_index_bytes
                # A segment without batches has no offsets.
                or (too_far and segment.log_bytes > 0)
            ):
                break
            stop += 1
        groups.append(range(start, stop))
        start = stop
    return groups

"""Which segments become one when they are cleaned. Pure.

Segments shrink each time they are cleaned; so that they do not end as very many small ones, neighbours that fit into
one segment together are written to one: by the bytes of their logs and of their indexes, and by their offsets, which
have to be relative to the first one's. How many is bounded, too, for their files are renamed in one turn of the event
loop: very many tiny ones become few, and one when they are cleaned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

MOST_MEMBERS = 64
"""Segments that become one at most: some 250 names are changed, which takes a few milliseconds."""


class SegmentSize(NamedTuple):
    """A segment as grouping sees it."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


def group(
    segments: Sequence[SegmentSize], *, max_log_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[range]:
    """Indexes of the segments, in order, that go into one segment each.

    Where a segment ends is taken from where the next one begins; ``first_uncleanable_offset`` ends the last one.
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
                # One without batches has no offsets to say.
                or (too_far and segment.log_bytes > 0)
            ):
                break
            stop += 1
        groups.append(range(start, stop))
        start = stop
    return groups

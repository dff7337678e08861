"""The segments of one log, in order, and which of them holds an offset."""

from __future__ import annotations

from bisect import bisect_right

from broker.log.segment.segment import Segment


class SegmentList:
    """Hold the segments of one log, in order.

    Only the event loop's thread changes it. The list is replaced and never changed in place, so a flush or a cleaning
    on another thread keeps a consistent list once it has read `all`.

    Attributes:
        all: the segments, oldest first; never empty.
        bases: their base offsets.
        active: the last one, which takes the appends.
    """

    __slots__ = ("active", "all", "bases")

    def __init__(self, segments: list[Segment]) -> None:
        self.replace(segments)

    def replace(self, segments: list[Segment]) -> None:
        """Let `segments`, which must not be empty, be the segments of the log."""
        self.all = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def index_of(self, offset: int) -> int:
        """Return the index of the segment that holds `offset`; that of the first one for an offset before it."""
        return max(bisect_right(self.bases, offset) - 1, 0)

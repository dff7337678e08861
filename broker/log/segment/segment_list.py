"""The segments of one log, in order, and which of them holds an offset."""

from __future__ import annotations

from bisect import bisect_right

from broker.log.segment.segment import Segment


class SegmentList:
    """See the module.

    Changed on the loop's thread only. The list is replaced, never changed in place, so a flush or a cleaning on another
    thread that took ``all`` keeps a whole one.

    Attributes:
        all: the segments, oldest first; never empty.
        bases: their base offsets.
        active: the last one, which takes the appends.
    """

    __slots__ = ("active", "all", "bases")

    def __init__(self, segments: list[Segment]) -> None:
        self.replace(segments)

    def replace(self, segments: list[Segment]) -> None:
        """Take ``segments``, which is not empty, for the log's."""
        self.all = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def index_of(self, offset: int) -> int:
        """Index of the segment that holds ``offset``; the first one for an offset before all."""
        return max(bisect_right(self.bases, offset) - 1, 0)

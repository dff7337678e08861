"""The place where a truncation cuts a segment, found before anything is changed."""

from __future__ import annotations

from typing import NamedTuple

from broker.log.segment.batch_scan import last_end
from broker.log.segment.segment import Segment
from kafkalog.records.errors import CorruptRecordError
from kafkalog.storage import names


class SegmentCut(NamedTuple):
    """The place of a cut in a segment, and where to look for the largest timestamp before it."""

    offset: int
    """The batch that holds it goes, and every later one."""
    position: int
    """The size of what stays, in bytes."""
    end_offset: int
    """The offset after the last batch that stays."""
    known: tuple[int, int]
    """The largest timestamp, and the offset of its batch, in the time index before the cut."""
    unknown_from: int
    """The position from which batches before the cut may have a larger timestamp."""


def find_cut(segment: Segment, offset: int) -> SegmentCut:
    """Find the place where `segment` is cut to end before `offset`, which it holds or which comes after it.

    It changes nothing, but damaged indexes are built anew from the log.

    Raises:
        RecordsError, CorruptIndexError: the segment does not read as batches up to there.
        OSError: the segment cannot be read.
    """
    found = segment.position_of(offset)
    position = segment.size if found is None else found
    index = segment.offset_index
    end_offset = segment.base_offset
    if position:
        file = segment.file
        end, end_offset = last_end(file.fd, index.lookup(offset - 1)[1], position, segment.base_offset)
        if end != position:
            raise CorruptRecordError(f"{segment.path(names.LOG)}: no whole batch ends at position {position}")
    known = segment.time_index.last_before(offset)
    return SegmentCut(offset, position, end_offset, known, index.lookup(known[1])[1])

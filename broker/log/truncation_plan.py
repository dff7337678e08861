"""Reading what a truncation needs to know, before it changes anything.

Damaged bytes are found here, and the log stays as it is. Once a truncation has begun, it cannot be given up.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass

from broker.log.files.file_ops import FileOps
from broker.log.index.index_file import CorruptIndexError
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_recall import recall
from broker.log.recovery.producer_replay import replay
from broker.log.recovery.segment_recovery import rebuild_transaction_index
from broker.log.segment.batch_scan import latest_timestamp
from broker.log.segment.segment import Segment
from broker.log.segment.segment_cut import SegmentCut, find_cut
from broker.log.segment.segment_list import SegmentList

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TruncationPlan:
    """A truncation of one log that can be carried out."""

    segments: list[Segment]
    """The segments that stay. The last one is cut."""
    cut: SegmentCut
    latest: tuple[int, int]
    """The largest timestamp before the cut, and its offset."""
    producers: ProducerStateManager
    """The state of the producers at the cut."""


def plan(
    segments: SegmentList, offsets: LogOffsets, producers: ProducerStateManager, offset: int, now_ms: int, ops: FileOps
) -> TruncationPlan:
    """Plan the removal of every batch at or after `offset`, which lies before the end of the log.

    Nothing changes but that damaged indexes are built anew.

    Raises:
        RecordsError, CorruptIndexError: the log is damaged where it has to be read.
        OSError: it cannot be read.
    """
    kept = segments.all[: bisect_right(segments.bases, offset)]
    segment = kept[-1]
    cut = find_cut(segment, offset)
    _check_aborted(kept, ops)
    file = segment.file
    latest = latest_timestamp(file.fd, cut.unknown_from, cut.position, cut.known)
    state = producers.as_of(min(offsets.start, cut.end_offset), cut.end_offset, now_ms)
    if producers.producers or state.producers:
        recall(kept, state, now_ms)
        replay(kept, state, cut.end_offset)
    else:
        # The log has no producer to know of, so the headers of a whole segment need not be read.
        state.end_offset = cut.end_offset
    return TruncationPlan(kept, cut, latest, state)


def _check_aborted(kept: list[Segment], ops: FileOps) -> None:
    """Check that the aborted transactions of the last segment can be read; build a damaged index anew from the log.

    Raises:
        RecordsError: the index is damaged, and the log does not read as batches.
        OSError: the disk failed.
    """
    segment = kept[-1]
    try:
        segment.aborted.index.items()
    except CorruptIndexError as error:
        logger.warning("Rebuilding the transaction index of %s: %s", segment, error)
        rebuild_transaction_index(kept, segment, ops)

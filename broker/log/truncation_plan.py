"""Reading what a truncation needs to know, before it changes anything.

Damaged bytes are found here, and the log stays as it is. Once a truncation has begun, it cannot be given up.

The headers of a whole segment, and more, may have to be read. A worker can do so while the log is still whole, and the
event loop then truncates it in one go.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from dataclasses import dataclass

from broker.log.files.file_ops import FileOps
from broker.log.index.index_file import CorruptIndexError
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_recall import recall
from broker.log.recovery.producer_replay import Part, parts_to_replay, replay_parts
from broker.log.recovery.transaction_rebuild import rebuild_transaction_index
from broker.log.segment.batch_scan import latest_timestamp
from broker.log.segment.segment import Segment
from broker.log.segment.segment_cut import SegmentCut, find_cut
from broker.log.segment.segment_list import SegmentList
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

logger = logging.getLogger(__name__)


QUICK_BYTES = 512 << 10
"""A plan that reads no more of the log than this may do so on the event loop: some 10 ms, if the batches are small."""
QUICK_SYNC_BYTES = 2 << 20
"""So much of the log the event loop may force to the device: some 20 ms, if the disk is slow."""


@dataclass(slots=True)
class TruncationPlan:
    """A truncation of one log: what stays, and what is known of it once `read` was called.

    Make and use it on the event loop's thread. Only `read` may be called on a worker's.
    """

    segments: list[Segment]
    """The segments that stay. The last one is cut."""
    cut: SegmentCut
    log_start: int
    """The log start offset when the plan was made."""
    truncations: int
    """The number of truncations when the plan was made."""
    producers: ProducerStateManager
    """The state of the producers at the cut; before `read`, that of a snapshot."""
    last: Part
    """The part of the last segment where a batch may have a larger timestamp than the time index knows."""
    replayed: list[Part]
    """The parts that tell of producers."""
    unflushed_bytes: int
    """Bytes before the cut of the last segment that may not be on the device. The truncation forces them to it."""
    ops: FileOps
    latest: tuple[int, int] | None = None
    """The largest timestamp before the cut, and its offset; None if it was not read yet."""
    damage: RecordsError | None = None
    """The reason why the log cannot be read there."""

    @property
    def is_quick(self) -> bool:
        """Return whether `read` takes so little time that it may be called on the event loop."""
        return sum(part.end - part.position for part in (self.last, *self.replayed)) <= QUICK_BYTES

    @property
    def is_flushed(self) -> bool:
        """Return whether the event loop may force the file that is cut to the device.

        Else a worker should flush the log up to the cut before.
        """
        return self.unflushed_bytes <= QUICK_SYNC_BYTES

    @property
    def is_read(self) -> bool:
        """Return whether `read` has found out everything, or that the log is damaged."""
        return self.latest is not None or self.damage is not None

    def read(self) -> None:
        """Read the headers of the batches that stay. May run on a worker's thread, and changes no file.

        Raises:
            OSError: a file cannot be read. It may have another name by now. The plan is of no use any more.
        """
        last, cut = self.last, self.cut
        fd = self.ops.open(last.path, os.O_RDONLY)
        try:
            latest = latest_timestamp(fd, last.position, last.end, cut.known)
        except RecordsError as error:
            self.damage = error
            return
        finally:
            os.close(fd)
        replay_parts(self.replayed, self.producers, cut.end_offset, self.ops)
        self.latest = latest


def plan(
    segments: SegmentList,
    offsets: LogOffsets,
    producers: ProducerStateManager,
    truncations: int,
    recovery_point: int,
    offset: int,
    now_ms: int,
    ops: FileOps,
) -> TruncationPlan:
    """Plan the removal of every batch at or after `offset`, which lies before the end of the log.

    Nothing changes but that damaged indexes are built anew.

    Raises:
        RecordsError, CorruptIndexError: the log is damaged where it has to be read.
        OSError: it cannot be read.
    """
    kept = segments.all[: bisect_right(segments.bases, offset)]
    cut = find_cut(kept[-1], offset)
    _check_aborted(kept, ops)
    path, end = kept[-1].path(names.LOG), cut.end_offset
    flushed = kept[-1].offset_index.lookup(recovery_point)[1] if recovery_point > kept[-1].base_offset else 0
    state = producers.as_of(min(offsets.start, end), end, now_ms)
    replayed: list[Part] = []
    if producers.producers or state.producers:
        recall(kept, state, now_ms)
        replayed = [
            # Nobody writes before the cut.
            part._replace(end=cut.position) if part.path == path else part
            for part in parts_to_replay(kept, state.end_offset, end)
        ]
    # Else the log has no producer to know of, so the headers of a whole segment need not be read.
    last = Part(path, cut.unknown_from, cut.position)
    unflushed = max(cut.position - flushed, 0)
    return TruncationPlan(kept, cut, offsets.start, truncations, state, last, replayed, unflushed, ops)


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

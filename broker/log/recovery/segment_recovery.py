"""Recovery of one segment after an unclean stop: check every batch, cut at the first bad one, rebuild the indexes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from broker.log.files.file_ops import NO_SPACE
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_replay import note_producer
from broker.log.segment.batch_scan import headers, is_zero, verified_batches
from broker.log.segment.segment import Segment
from kafkalog.records.batch import HEADER_SIZE, BatchHeader
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

logger = logging.getLogger(__name__)


class OffsetOverflowError(Exception):
    """A segment goes on with a batch whose offsets its indexes cannot hold. It has to be split, if it is not damaged.

    Attributes:
        segment: the segment.
    """

    def __init__(self, segment: Segment, last_offset: int) -> None:
        super().__init__(f"{segment.path(names.LOG)} goes on up to offset {last_offset}")
        self.segment = segment


def recover_segment(
    segment: Segment,
    producers: ProducerStateManager,
    epochs: LeaderEpochCache,
    before_cut: Callable[[int], None],
    *,
    may_split: bool = False,
) -> int:
    """Check every batch, cut the segment at the first bad one, and rebuild its indexes.

    Args:
        producers, epochs: updated with each batch.
        before_cut: called with the offset after the last good batch if something is to be cut off.
        may_split: whether a batch that is too far from the base offset is no damage.

    Returns:
        The offset after the last good batch.

    Raises:
        OffsetOverflowError: a batch is too far from the base offset, and `may_split` is set. The indexes are not
            finished, and the segment was not cut.
        OSError: the segment cannot be read or cut.
    """
    segment.reset_indexes()
    segment.aborted.index.reset()
    file = segment.file
    file_size = os.fstat(file.fd).st_size
    segment.size = file_size
    valid, next_offset = 0, segment.base_offset
    try:
        for position, header, batch in verified_batches(file.fd, 0, file_size):
            last = header.last_offset
            if may_split and next_offset <= header.base_offset <= last and last > _largest(segment):
                raise OffsetOverflowError(segment, last)
            if header.base_offset < next_offset or not header.base_offset <= last <= _largest(segment):
                raise CorruptRecordError(
                    f"offsets {header.base_offset} to {last} at position {position} do not follow {next_offset}"
                )
            segment.note_batch(position, len(batch), header.base_offset, last, header.max_timestamp)
            if header.partition_leader_epoch > epochs.latest_epoch:
                _assign_epoch(epochs, header)
            note_producer(producers, header, batch, segment)
            valid, next_offset = position + len(batch), last + 1
    except RecordsError as error:
        logger.warning("%s: no valid record batch at position %d: %s", segment.path(names.LOG), valid, error)
    if valid < segment.size:
        before_cut(next_offset)
    segment.cut(valid)
    segment.finish()
    # The recovery point may already cover this segment, and nothing would notice rows that the index lacks.
    segment.aborted.index.sync()
    return next_offset


def _assign_epoch(epochs: LeaderEpochCache, header: BatchHeader) -> None:
    """Note the epoch of a batch. On a full disk the next append writes the file."""
    try:
        epochs.assign(header.partition_leader_epoch, header.base_offset)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise


def give_back_reserved(segment: Segment) -> None:
    """Cut off the space that was reserved for a segment which was rolled, but not flushed after that.

    The recovery point does not show this, because the records had been forced to the device before.

    Raises:
        OSError: the segment cannot be read or cut.
    """
    file = segment.file
    if not segment.config.preallocate and any(os.pread(file.fd, HEADER_SIZE, max(segment.size - HEADER_SIZE, 0))):
        return
    end = 0
    with suppress(RecordsError):
        for position, header in headers(file.fd, 0, segment.size):
            end = position + header.size
    if is_zero(file.fd, end, segment.size):
        segment.cut(end)


def _largest(segment: Segment) -> int:
    return segment.base_offset + MAX_RELATIVE_OFFSET

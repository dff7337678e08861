"""Recalling the batches that a producer snapshot lacks.

A snapshot has the last batch of each producer, and a producer may send its last five again: those that were in flight
when the leader died. After a restart the earlier four would be refused as out of order, although they are in the log.
The producer would take that for a loss, and write them once more under a new epoch. So they are looked up in the
log's last bytes before the snapshot. Apache Kafka does not do so.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

from broker.log.producer_state.producer_entry import RETAINED_BATCHES, SEQUENCE_MASK, BatchMetadata, ProducerEntry
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.segment.batch_scan import headers
from broker.log.segment.segment import Segment
from kafkalog.records.batch import BatchHeader
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

logger = logging.getLogger(__name__)

RECENT_MS = 600_000
"""A log that was not written to for so long is left alone, so that a start with many partitions stays quick. Producers
give a batch up after `delivery.timeout.ms`, two minutes by default."""

WINDOWS = (1 << 18, 1 << 23)
"""The numbers of bytes to read before the snapshot; the second where the first does not have all batches."""


def recall(segments: list[Segment], producers: ProducerStateManager, now_ms: int) -> None:
    """Add to each producer the batches before its last one; `producers` holds what a snapshot held.

    Batches that cannot be read, or lie further back, are left out.

    Raises:
        OSError: a segment cannot be read.
    """
    lacking = {key: entry for key, entry in producers.producers.items() if _lacks(entry)}
    if not lacking or not _is_recent(segments, producers.end_offset, now_ms):
        return
    for window in WINDOWS:
        found: dict[int, list[BatchMetadata]] = {key: [] for key in lacking}
        try:
            for header in _last_headers(segments, producers.end_offset, window):
                entry = lacking.get(header.producer_id)
                if entry is not None and header.producer_epoch == entry.epoch and not header.is_control:
                    _follow(found[header.producer_id], header)
        except RecordsError as error:
            logger.info("%s: earlier batches of producers are not recalled: %s", segments[-1].directory, error)
            return
        for key, batches in found.items():
            entry = lacking[key]
            last = entry.batches[-1]
            if batches and (batches[-1].last_sequence, batches[-1].last_offset) == (
                last.last_sequence,
                last.last_offset,
            ):
                entry.batches[:] = [*batches[:-1], last]
        lacking = {key: entry for key, entry in lacking.items() if _lacks(entry)}
        if not lacking:
            return


def _lacks(entry: ProducerEntry) -> bool:
    batches = entry.batches
    return bool(batches) and len(batches) < RETAINED_BATCHES and batches[0].first_sequence != 0


def _is_recent(segments: list[Segment], end: int, now_ms: int) -> bool:
    holding = [segment for segment in segments if segment.base_offset < end]
    return bool(holding) and os.stat(holding[-1].path(names.LOG)).st_mtime * 1000 > now_ms - RECENT_MS


def _follow(batches: list[BatchMetadata], header: BatchHeader) -> None:
    """Add a batch to those of a producer, which begin anew where it does not follow them."""
    if batches and (batches[-1].last_sequence + 1) & SEQUENCE_MASK != header.base_sequence:
        batches.clear()
    batches.append(
        BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
    )
    if len(batches) > RETAINED_BATCHES:
        del batches[0]


def _last_headers(segments: list[Segment], end: int, window: int) -> Iterator[BatchHeader]:
    """Yield the headers of about the last `window` bytes of batches before the offset `end`."""
    parts: list[tuple[Segment, int]] = []
    left = window
    for segment in reversed(segments):
        if segment.base_offset >= end or left <= 0:
            continue
        start = 0
        if segment.size > left:
            until = segment.size if parts else segment.position_of(end)
            wanted = (segment.size if until is None else until) - left
            start = _batch_after(segment, wanted) if wanted > 0 else 0
            if start < wanted - window:
                # The index has no entry near it. To walk there may take long.
                break
        parts.append((segment, start))
        left -= segment.size
    for segment, start in reversed(parts):
        file = segment.file
        for _, header in headers(file.fd, start, segment.size):
            if header.base_offset >= end:
                break
            yield header
        if segment is not segments[-1]:
            segment.release()


def _batch_after(segment: Segment, position: int) -> int:
    """Return where an indexed batch begins: the first one at or after `position`, or else the last one."""
    index = segment.offset_index
    offset = index.lookup_position_after(position)
    return (index.last() if offset is None else index.lookup(offset))[1]

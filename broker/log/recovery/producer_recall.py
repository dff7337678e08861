"""Recalling the batches that a producer snapshot lacks.

A snapshot has the last batch of each producer, and a producer may send its last five again: those that were in flight
when the leader died. After a restart the earlier four would be refused as out of order, although they are in the log.
The producer would take that for a loss, and write them once more under a new epoch. So they are looked up in the
log's last bytes before the snapshot. Apache Kafka does not do so.

Nothing depends on it but such producers. So what is looked up is bounded, and what cannot be read is left out.
"""

from __future__ import annotations

import logging
import os

from broker.log.producer_state.producer_entry import RETAINED_BATCHES, SEQUENCE_MASK, BatchMetadata, ProducerEntry
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.segment.batch_scan import headers
from broker.log.segment.segment import Segment
from kafkalog.records.batch import BatchHeader
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

logger = logging.getLogger(__name__)

RECENT_MS = 600_000
"""A log whose file was not changed for so long is left alone, so that a start with many partitions stays quick.
Producers give a batch up after `delivery.timeout.ms`, two minutes by default."""

FIRST_BYTES = 128 << 10
"""The bytes before the snapshot to look at first: eight batches of the default `batch.size`."""

MOST_BYTES = 8 << 20
"""The bytes to look at where a producer has too few batches in the first ones."""

MOST_BATCHES = 4096
"""About the number of batches to look at then, however small they are."""


def recall(segments: list[Segment], producers: ProducerStateManager, now_ms: int) -> None:
    """Add to each producer the batches before its last one; `producers` holds what a snapshot held.

    Producers whose last batch is not among the first bytes are left alone: most are gone. Nothing is raised.
    """
    end = producers.end_offset
    lacking = {key: entry for key, entry in producers.producers.items() if _lacks(entry)}
    try:
        if not lacking or not _is_recent(segments, end, now_ms):
            return
        found = _last_headers(segments, end, FIRST_BYTES)
        _add(lacking, found)
        first = found[0].base_offset if found else end
        lacking = {k: entry for k, entry in lacking.items() if _lacks(entry) and entry.batches[-1].last_offset >= first}
        if lacking:
            size = sum(header.size for header in found) // len(found)
            _add(lacking, _last_headers(segments, end, min(MOST_BYTES, MOST_BATCHES * size)))
    except OSError as error:
        logger.warning("%s: earlier batches of producers are not looked up: %s", segments[-1].directory, error)


def _lacks(entry: ProducerEntry) -> bool:
    batches = entry.batches
    return bool(batches) and len(batches) < RETAINED_BATCHES and batches[0].first_sequence != 0


def _is_recent(segments: list[Segment], end: int, now_ms: int) -> bool:
    holding = [segment for segment in segments if segment.base_offset < end]
    return bool(holding) and os.stat(holding[-1].path(names.LOG)).st_mtime * 1000 > now_ms - RECENT_MS


def _add(lacking: dict[int, ProducerEntry], found: list[BatchHeader]) -> None:
    """Give each producer those batches that lead up to its last one without a gap."""
    runs: dict[int, list[BatchMetadata]] = {key: [] for key in lacking}
    for header in found:
        entry = lacking.get(header.producer_id)
        if entry is not None and header.producer_epoch == entry.epoch and not header.is_control:
            _extend(runs[header.producer_id], header)
    for key, run in runs.items():
        batches = lacking[key].batches
        if run and run[-1][:2] == batches[-1][:2]:
            batches[:] = [*run[:-1], batches[-1]]


def _extend(run: list[BatchMetadata], header: BatchHeader) -> None:
    """Add a batch to a run of batches, which begins anew where there is a gap before the batch."""
    if run and (run[-1].last_sequence + 1) & SEQUENCE_MASK != header.base_sequence:
        run.clear()
    run.append(BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp))
    if len(run) > RETAINED_BATCHES:
        del run[0]


def _last_headers(segments: list[Segment], end: int, size: int) -> list[BatchHeader]:
    """Return the headers of about the last `size` bytes of batches before the offset `end`."""
    parts: list[list[BatchHeader]] = []
    for segment in reversed(segments):
        if segment.base_offset >= end:
            continue
        if size <= 0:
            break
        part: list[BatchHeader] = []
        parts.append(part)
        # The indexes of a log in use may have entries that are not in the file, or not on the device.
        was_used = segment.indexes.offset is not None or segment.indexes.time is not None
        try:
            _read(segment, end, size, part)
        except RecordsError as error:
            logger.info("%s: some batches of producers are not looked up: %s", segment.path(names.LOG), error)
        finally:
            if segment is not segments[-1] and not was_used:
                segment.release()
        size -= sum(header.size for header in part) if part else segment.size
    return [header for part in reversed(parts) for header in part]


def _read(segment: Segment, end: int, size: int, part: list[BatchHeader]) -> None:
    """Append to `part` the headers of about the last `size` bytes of one segment before the offset `end`.

    Raises:
        RecordsError: the segment does not read as batches.
        OSError: the segment cannot be read.
    """
    start = 0
    if segment.size > size:
        position = segment.position_of(end)
        wanted = (segment.size if position is None else position) - size
        if wanted > 0:
            index = segment.offset_index
            offset = index.lookup_position_after(wanted)
            start = (index.last() if offset is None else index.lookup(offset))[1]
            if start < wanted - size:
                # The index has no entry near it, and the way from the one before it may be long.
                return
    file = segment.file
    for _, header in headers(file.fd, start, segment.size):
        if header.base_offset >= end:
            return
        part.append(header)

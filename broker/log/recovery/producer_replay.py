"""Rebuilding the producer state from the batches of the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import NamedTuple

from broker.log.files.file_ops import FileOps
from broker.log.producer_state.control_batches import parse_marker
from broker.log.producer_state.producer_entry import SEQUENCE_MASK
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.segment.batch_scan import headers
from broker.log.segment.segment import Segment
from kafkalog.records.batch import BatchHeader
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import AbortedTransaction

logger = logging.getLogger(__name__)


def replay(segments: list[Segment], producers: ProducerStateManager, end: int, *, strict: bool = False) -> None:
    """Bring the producer state from `producers.end_offset` up to `end` by the batch headers of the log.

    Unless `strict`, a damaged segment is logged and the replay goes on with the next one: the records and their
    producers' state are lost there, but the log can still be used.

    Raises:
        RecordsError: with `strict`, a segment does not read as batches.
        OSError: a segment cannot be read.
    """
    start = producers.end_offset
    for segment in _holding(segments, start, end):
        try:
            if (position := _position(segment, start)) is not None:
                file = segment.file
                _replay_file(file.fd, position, segment.size, producers, start, end)
        except RecordsError as error:
            if strict:
                raise
            _warn(segment.path(names.LOG), error)
    producers.end_offset = max(end, start)


class Part(NamedTuple):
    """A part of a `.log` file that a replay reads."""

    path: str
    position: int
    end: int


def parts_to_replay(segments: list[Segment], start: int, end: int) -> list[Part]:
    """Return what `replay_parts` has to read from the offset `start` up to `end`.

    Raises:
        OSError: a segment cannot be read.
    """
    found: list[Part] = []
    for segment in _holding(segments, start, end):
        path = segment.path(names.LOG)
        try:
            if (position := _position(segment, start)) is not None:
                found.append(Part(path, position, segment.size))
        except RecordsError as error:
            _warn(path, error)
    return found


def replay_parts(parts: list[Part], producers: ProducerStateManager, end: int, ops: FileOps) -> None:
    """Do the work of `replay` on `parts_to_replay`. May run on a worker's thread: it opens the files by itself.

    Raises:
        OSError: a file cannot be read.
    """
    start = producers.end_offset
    for part in parts:
        fd = ops.open(part.path, os.O_RDONLY)
        try:
            _replay_file(fd, part.position, part.end, producers, start, end)
        except RecordsError as error:
            _warn(part.path, error)
        finally:
            os.close(fd)
    producers.end_offset = max(end, start)


def _warn(path: str, error: RecordsError) -> None:
    logger.warning(
        "%s is damaged, so the producer state of its records is lost: %s. Producers that wrote there and "
        "nowhere later may append a batch twice when they retry", path, error,
    )  # fmt: skip


def _holding(segments: list[Segment], start: int, end: int) -> Iterator[Segment]:
    """Yield the segments that hold offsets from `start` up to `end`."""
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else end
        if following > start and segment.base_offset < end:
            yield segment


def _position(segment: Segment, start: int) -> int | None:
    return segment.position_of(start) if start > segment.base_offset else 0


def _replay_file(fd: int, position: int, size: int, producers: ProducerStateManager, start: int, end: int) -> None:
    for at, header in headers(fd, position, size):
        if header.base_offset >= end:
            break
        # The log start offset may lie within a batch; the batch counts nonetheless.
        if header.producer_id >= 0 and header.last_offset >= start:
            batch = os.pread(fd, header.size, at) if header.is_control else b""
            note_producer(producers, header, memoryview(batch), None)


def note_producer(
    producers: ProducerStateManager, header: BatchHeader, batch: memoryview, segment: Segment | None
) -> bool:
    """Take a batch of the log into the producer state; with `segment`, index the transaction that it aborts.

    Return whether that row was the first of the segment's transaction index, so that its file may be new.
    """
    aborted = take_batch(producers, header, batch)
    return aborted is not None and segment is not None and segment.aborted.add(aborted)


def take_batch(producers: ProducerStateManager, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
    """Take a batch of the log into the producer state; return the transaction that it aborts."""
    producers.end_offset = header.last_offset + 1
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.update(
            header.producer_id,
            header.producer_epoch,
            (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.is_transactional,
        )
        return None
    if header.records_count == 0:
        # Compaction leaves an empty batch of a marker whose transaction is gone, to keep the producer's epoch.
        producers.note_epoch(header.producer_id, header.producer_epoch, header.max_timestamp)
        return None
    marker = parse_marker(batch)
    if marker is None:
        return None
    return producers.complete(
        header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.base_offset, marker.timestamp,
        aborted=marker.aborted,
    )  # fmt: skip

"""Opening a partition's directory: what is believed, what is checked, what is repaired.

After a clean stop nothing is read that need not be: the segments are the ``.log`` files in the directory, the
log end offset comes from the last offset-index entry and the few batch headers after it, the producer state
from the newest snapshot.

After an unclean stop every segment from the recovery point on is read whole: each batch must be whole, its
CRC right, its offsets after those before it. Indexes and producer state are built anew on the way. At the
first batch that is not so the segment is cut, and where a segment does not go on at the offset at which the
one before it ended, it and those after it are removed: what remains is a valid prefix. Segments before the
recovery point were flushed, indexes and all, before the checkpoint said so; theirs are checked when first
used.

Leftovers: ``.deleted`` and ``.cleaned`` files go; ``.swap`` files are a finished compaction and replace the
segments they cover, unless a ``.cleaned`` file shows that they were never all in place.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from broker.log.batch_scan import headers, is_zero, verified_batches
from broker.log.config import LogConfig
from broker.log.control import parse_marker
from broker.log.file_ops import NO_SPACE, OS, FileOps
from broker.log.leader_epoch import LeaderEpochCache
from broker.log.producer_state import SEQUENCE_MASK, ProducerStateManager
from broker.log.resources import LogResources
from broker.log.segment import Segment
from kafkalog.records.batch import HEADER_SIZE, BatchHeader
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

logger = logging.getLogger(__name__)

INDEX_FILES = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX)


@dataclass(slots=True)
class LoadedLog:
    """What was found in a partition's directory."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerStateManager
    epochs: LeaderEpochCache


def load(
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    log_start_offset: int,
    recovery_point: int,
    now_ms: int,
    resources: LogResources,
) -> LoadedLog:
    """Open the log in ``directory``, which exists.

    Args:
        clean: the last shutdown left its marker; otherwise everything from ``recovery_point`` on is checked.
        log_start_offset: from the checkpoint; the first segment's base offset if that is later.

    Raises:
        OSError: the directory or a file cannot be read or repaired.
    """
    ops = resources.ops
    bases, snapshots = _list_segments(directory, ops)
    segments = [Segment(directory, base, size, config, now_ms, resources) for base, size in sorted(bases.items())]
    epochs = LeaderEpochCache(os.path.join(directory, names.LEADER_EPOCH_CHECKPOINT), ops)
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, snapshots, ops)
    loader = _Loader(directory, config, segments, producers, epochs, now_ms, resources)
    return loader.load(clean, log_start_offset, recovery_point)


def load_new(
    directory: str,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    now_ms: int,
    resources: LogResources,
) -> LoadedLog:
    """`load` of a directory that has just been made: there is nothing in it to look for.

    Raises:
        OSError: the first segment cannot be made.
    """
    ops = resources.ops
    epochs = LeaderEpochCache(os.path.join(directory, names.LEADER_EPOCH_CHECKPOINT), ops)
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, (), ops)
    segments = [Segment.create(directory, log_start_offset, config, now_ms, resources)]
    producers.start_at(log_start_offset)
    return LoadedLog(
        segments, log_start_offset, log_start_offset, min(recovery_point, log_start_offset), producers, epochs
    )


class _Loader:
    def __init__(
        self,
        directory: str,
        config: LogConfig,
        segments: list[Segment],
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        now_ms: int,
        resources: LogResources,
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.now_ms = now_ms
        self.resources = resources
        self.ops = resources.ops
        self.cut_short: set[int] = set()

    def load(self, clean: bool, log_start: int, recovery_point: int) -> LoadedLog:
        segments = self.segments
        self.producers.remove_stray_snapshots([segment.base_offset for segment in segments])
        if clean:
            end = self._end_after_clean_stop(log_start)
        else:
            trusted = max(recovery_point, log_start)
            first = max((i for i, s in enumerate(segments) if s.base_offset <= trusted), default=0)
            if first:
                _give_back_reserved(segments[first - 1])
            end = self._recover_from(first, log_start)
        if segments and end < log_start:
            logger.warning(
                "%s: removing all segments, since the log end offset %d is before the log start offset %d",
                self.directory, end, log_start,
            )  # fmt: skip
            self._remove_from(0)
            self.epochs.clear()
        if not segments:
            segments.append(Segment.create(self.directory, log_start, self.config, self.now_ms, self.resources))
            self.producers.start_at(log_start)
            end = log_start
        log_start = max(log_start, segments[0].base_offset)
        self.epochs.truncate_from_end(end, write=False)
        self.epochs.truncate_from_start(log_start)
        self.producers.on_log_start_offset(log_start)
        return LoadedLog(
            segments, log_start, end, end if clean else min(recovery_point, end), self.producers, self.epochs
        )

    def _end_after_clean_stop(self, log_start: int) -> int:
        if not self.segments:
            return log_start
        active = self.segments[-1]
        try:
            end = active.next_offset()
        except RecordsError as error:
            logger.warning("%s is damaged in spite of a clean shutdown: %s", active, error)
            return self._recover_from(len(self.segments) - 1, log_start)
        self.producers.reload(max(log_start, self.segments[0].base_offset), end, self.now_ms)
        replay(self.segments, self.producers, end)
        active.release()
        return end

    def _recover_from(self, first: int, log_start: int) -> int:
        segments = self.segments
        if not segments:
            return log_start
        start = segments[first].base_offset
        self.producers.reload(max(log_start, segments[0].base_offset), start, self.now_ms)
        replay(segments, self.producers, start)
        end = start
        at = first
        while at < len(segments):
            segment = segments[at]
            if at > first and self._breaks_off(segments[at - 1], segment, end):
                self._end_before(at, end)
                break
            if segment.base_offset < end:
                logger.warning("Removing %s, which is empty and within another", segment.path(names.LOG))
                self._remove(segment)
                continue
            self.producers.end_offset = segment.base_offset
            self._take_snapshot(sync=False)
            size = segment.size
            end = recover_segment(segment, self.producers, self.epochs, partial(self._before_cut, at))
            if segment.size < size:
                logger.warning(
                    "%s: the last %d bytes, from offset %d on, were no valid record batches and were cut off. What is "
                    "lost had not been flushed (see flush.messages), or the disk has damaged it",
                    segment.path(names.LOG), size - segment.size, end,
                )  # fmt: skip
            at += 1
        self._take_snapshot(sync=True)
        for segment in segments[first:]:
            segment.close_idle()
        return end

    def _take_snapshot(self, *, sync: bool) -> None:
        """Write the producer state, unless the disk is full: the next start learns it from the log once more."""
        try:
            self.producers.take_snapshot(sync=sync)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("No producer snapshot of %s at %d: %s", self.directory, self.producers.end_offset, error)

    def _breaks_off(self, before: Segment, segment: Segment, end: int) -> bool:
        """Whether ``segment`` does not go on where ``before`` ended: records between them, or the names of
        whole segments, were lost.

        Zeros behind the last batch are no loss; nor is a gap that compaction made.
        """
        if segment.base_offset < end:
            return segment.size > 0
        gap = segment.base_offset > end
        return gap and (before.base_offset in self.cut_short or not self.config.compact)

    def _before_cut(self, at: int, end: int) -> None:
        """What does not go on behind a segment that is to be cut goes first.

        A crash in between must find the damage again: a gap alone could be one that compaction made.
        """
        self.cut_short.add(self.segments[at].base_offset)
        if at + 1 < len(self.segments) and self._breaks_off(self.segments[at], self.segments[at + 1], end):
            self._end_before(at + 1, end)

    def _end_before(self, at: int, end: int) -> None:
        logger.warning(
            "%s ends at offset %d, where records are missing; removing the %d segments after it (%s and on)",
            self.directory, end, len(self.segments) - at, self.segments[at].path(names.LOG),
        )  # fmt: skip
        self._remove_from(at)

    def _remove_from(self, first: int) -> None:
        # From the end: a failure, or a crash, in between leaves a log without a gap.
        for segment in self.segments[: first - 1 if first else None : -1]:
            self._remove(segment)
        # At once: they must not come back behind what is appended next.
        self.ops.fsync_dir(self.directory)

    def _remove(self, segment: Segment) -> None:
        if segment.base_offset in self.producers.snapshot_offsets:
            self.producers.remove_snapshot(segment.base_offset)
        segment.remove()
        self.segments.remove(segment)


def recover_segment(
    segment: Segment, producers: ProducerStateManager, epochs: LeaderEpochCache, before_cut: Callable[[int], None]
) -> int:
    """Check every batch, cut the segment at the first bad one, rebuild its indexes; returns the offset after
    the last.

    ``before_cut`` is called with that offset if there is something to be cut off.

    Raises:
        OSError: it cannot be read or cut.
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
    # The recovery point may vouch for all of it already, and nobody would miss what is not in this index.
    segment.aborted.index.sync()
    return next_offset


def _assign_epoch(epochs: LeaderEpochCache, header: BatchHeader) -> None:
    """Note the epoch of a batch. On a full disk the file stays behind, and the next append sees to it."""
    try:
        epochs.assign(header.partition_leader_epoch, header.base_offset)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise


def _give_back_reserved(segment: Segment) -> None:
    """Cut the space off that was reserved for a segment which was rolled but not flushed after that.

    Its records had been forced to the device before, so the recovery point does not tell.

    Raises:
        OSError: it cannot be read or cut.
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


def replay(segments: list[Segment], producers: ProducerStateManager, end: int, *, strict: bool = False) -> None:
    """Bring the producer state from where it stands up to ``end`` by the batch headers of the log.

    What is damaged is told and passed over, to the next segment, unless ``strict``: records are lost there, and what
    producers were known by; the log is no less usable for it.

    Raises:
        RecordsError: a segment does not read as batches, and ``strict``.
        OSError: one cannot be read.
    """
    start = producers.end_offset
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else end
        if following <= start or segment.base_offset >= end:
            continue
        try:
            _replay_segment(segment, producers, start, end)
        except RecordsError as error:
            if strict:
                raise
            logger.warning(
                "%s is damaged where the state of producers was to be learnt: %s. Producers that wrote there and "
                "nowhere after may append a batch twice if they try again", segment.path(names.LOG), error,
            )  # fmt: skip
    producers.end_offset = max(end, start)


def _replay_segment(segment: Segment, producers: ProducerStateManager, start: int, end: int) -> None:
    position = segment.position_of(start) if start > segment.base_offset else 0
    if position is None:
        return
    file = segment.file
    for at, header in headers(file.fd, position, segment.size):
        if header.base_offset >= end:
            break
        # A log start offset may lie within a batch, which is known nonetheless.
        if header.producer_id >= 0 and header.last_offset >= start:
            batch = os.pread(file.fd, header.size, at) if header.is_control else b""
            note_producer(producers, header, memoryview(batch), None)


def note_producer(
    producers: ProducerStateManager, header: BatchHeader, batch: memoryview, segment: Segment | None
) -> bool:
    """Take a batch of the log into the producer state; with ``segment``, index the transaction that it aborts.

    Returns whether that was the first of the segment's transaction index, whose file may be new.
    """
    producers.end_offset = header.last_offset + 1
    if header.producer_id < 0:
        return False
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
        return False
    if header.records_count == 0:
        # What compaction leaves of a marker whose transaction is gone, for its producer's epoch.
        producers.note_epoch(header.producer_id, header.producer_epoch, header.max_timestamp)
        return False
    marker = parse_marker(batch)
    if marker is None:
        return False
    aborted = producers.complete(
        header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.base_offset, marker.timestamp,
        aborted=marker.aborted,
    )  # fmt: skip
    return aborted is not None and segment is not None and segment.aborted.add(aborted)


def rebuild_transaction_index(segments: list[Segment], segment: Segment, ops: FileOps = OS) -> None:
    """Write a segment's transaction index anew from the markers of the log.

    Raises:
        RecordsError: the log does not read as batches.
        OSError: it cannot be read, or the index not be written.
    """
    # A state of its own, from the log's first batch on: a transaction may have begun in any earlier segment.
    producers = ProducerStateManager(segment.directory, 0, (), ops)
    producers.end_offset = segments[0].base_offset
    replay(segments, producers, segment.base_offset, strict=True)
    segment.aborted.index.reset()
    file = segment.file
    for position, header in headers(file.fd, 0, segment.size):
        batch = os.pread(file.fd, header.size, position) if header.is_control else b""
        note_producer(producers, header, memoryview(batch), segment)
    segment.aborted.index.sync()


def _largest(segment: Segment) -> int:
    return segment.base_offset + MAX_RELATIVE_OFFSET


def _list_segments(directory: str, ops: FileOps) -> tuple[dict[int, int], list[int]]:
    """``{base offset: size}`` of the ``.log`` files, and the offsets of the snapshots; leftovers are dealt
    with.
    """
    bases: dict[int, int] = {}
    snapshots: list[int] = []
    indexes: list[tuple[int, str]] = []
    leftovers = False
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            offset = names.offset_of(name)
            if offset is None:
                continue
            if name.endswith(names.LOG):
                bases[offset] = entry.stat().st_size
            elif name.endswith(names.SNAPSHOT):
                snapshots.append(offset)
            elif name.endswith(INDEX_FILES):
                indexes.append((offset, entry.path))
            elif name.endswith((names.DELETED, names.CLEANED, names.SWAP)):
                leftovers = True
    if leftovers:
        _clear_leftovers(directory, ops)
        return _list_segments(directory, ops)
    for offset, path in indexes:
        if offset not in bases:
            logger.warning("Removing the index file %s, whose log file is not there", path)
            ops.unlink(path)
    return bases, snapshots


def _clear_leftovers(directory: str, ops: FileOps) -> None:
    found = os.listdir(directory)
    cleaned = [name for name in found if name.endswith(names.CLEANED)]
    never_complete_from = min((names.offset_of(name) or 0 for name in cleaned), default=None)
    swaps = []
    for name in found:
        if not name.endswith(names.SWAP):
            continue
        if never_complete_from is not None and (names.offset_of(name) or 0) >= never_complete_from:
            ops.unlink(os.path.join(directory, name))
        else:
            swaps.append(name)
    # After those: it is by these that a crash in between finds them incomplete once more.
    for name in found:
        if name.endswith((names.DELETED, names.CLEANED)):
            ops.unlink(os.path.join(directory, name))
    logs = sorted(name for name in swaps if name.endswith(names.LOG + names.SWAP))
    if logs:
        first = names.offset_of(logs[0]) or 0
        # The segment that the first one is named after goes even where nothing was left of it.
        end = max(first + 1, *(_end_of_file(os.path.join(directory, name)) for name in logs))
        for name in found:
            offset = names.offset_of(name)
            if offset is not None and name.endswith(names.SEGMENT_FILES) and first <= offset < end:
                logger.info("Removing %s, which a compaction has replaced", name)
                ops.unlink(os.path.join(directory, name))
    # Logs first: an index in place beside a log that is not would be taken for one that the compaction has replaced.
    for name in sorted(swaps, key=lambda name: not name.endswith(names.LOG + names.SWAP)):
        path = os.path.join(directory, name)
        ops.rename(path, path.removesuffix(names.SWAP))
    ops.fsync_dir(directory)


def _end_of_file(path: str) -> int:
    """Offset after the last whole batch of a ``.log`` file; its own base offset when it has none."""
    end = names.offset_of(os.path.basename(path)) or 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, header in headers(fd, 0, os.fstat(fd).st_size):
            end = header.next_offset
    finally:
        os.close(fd)
    return end

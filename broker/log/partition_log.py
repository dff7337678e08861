"""The log of one partition: an append-only sequence of record batches, in segments.

Offsets from the log start offset up to, not including, the log end offset are there to be read. The high
watermark, set by the replica that owns this log, bounds what consumers see, retention and record deletion;
the recovery point is how far the log is known to be on the device.

A log belongs to one thread, the broker's loop. ``flush`` alone may run on a worker's thread beside it. The
list of segments is replaced, never changed, so what a flush or a reader holds stays whole.

Failures: a write that failed is undone, and the append answers KAFKA_STORAGE_ERROR; the next may succeed.
When it
cannot be undone, or an fsync failed, nobody knows what the file holds: the log goes offline, appends fail
    from then on, and reads of what is there go on.
"""

from __future__ import annotations

import logging
import os
import shutil
from bisect import bisect_right
from collections import deque
from pathlib import Path
from uuid import UUID

from broker.log import names, recovery
from broker.log.append_info import AppendInfo
from broker.log.checkpoints import read_partition_metadata, write_partition_metadata
from broker.log.config import LOG_APPEND_TIME, MAX_LONG, LogConfig
from broker.log.control import parse_marker
from broker.log.file_ops import OS, FileOps
from broker.log.producer_state import SEQUENCE_MASK
from broker.log.retention import deletable
from broker.log.segment import Segment, SegmentWriteError
from broker.log.segment_file import FileSlice, ReadResult
from broker.log.time_search import TimestampOffset, find_in_segment
from broker.log.transaction_index import AbortedTransaction
from broker.log.validation import Origin, as_protocol_error, prepare
from kafkalog.protocol.errors import (
    CorruptMessageError,
    InconsistentTopicIdError,
    KafkaStorageError,
    OffsetOutOfRangeError,
)
from kafkalog.records.batch import BatchHeader, assign_offsets, iter_headers, verify_crc
from kafkalog.records.errors import RecordsError

logger = logging.getLogger(__name__)


class PartitionLog:
    """See the module. Made by :meth:`open`.

    Attributes:
        dir: directory of the partition.
        log_start_offset: first offset that may be read.
        log_end_offset: offset the next record gets.
        recovery_point: everything before it is on the device.
        epochs: leader epochs and where they began.
        producers: state of the idempotent and transactional producers.
        offline: why the log takes no more appends, or None.
    """

    __slots__ = (
        "_active", "_bases", "_config", "_deletions", "_dir_unsynced", "_flush_from_roll", "_high_watermark",
        "_label", "_last_append_ms", "_ops", "_segments", "_truncations", "_unflushed_since_ms", "dir", "epochs",
        "log_end_offset", "log_start_offset", "offline", "partition", "producers", "recovery_point", "topic",
        "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        loaded: recovery.LoadedLog,
        topic_id: UUID | None,
        ops: FileOps,
    ) -> None:
        parsed = names.parse_partition_dir(directory.name)
        if parsed is None:
            raise ValueError(f"{directory} is not named topic-partition")
        self.dir = directory
        self.topic, self.partition = parsed
        self.topic_id = topic_id
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.offline: str | None = None
        self._config = config
        self._ops = ops
        self._label = f"{self.topic}-{self.partition}"
        self._high_watermark = loaded.log_start_offset
        self._set_segments(loaded.segments)
        self._deletions: deque[tuple[int, list[str]]] = deque()
        self._dir_unsynced = False
        self._flush_from_roll = False
        self._last_append_ms = 0
        self._unflushed_since_ms = 0
        self._truncations = 0

    @classmethod
    def open(
        cls,
        directory: str | Path,
        config: LogConfig,
        *,
        clean: bool,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        now_ms: int,
        topic_id: UUID | None = None,
        ops: FileOps = OS,
    ) -> PartitionLog:
        """Open the log in ``directory``, recovering it unless the last stop was ``clean``; made if it is not
        there.

        Args:
            log_start_offset: from the checkpoint, 0 if it has none.
            recovery_point: from the checkpoint, 0 if it has none.
            topic_id: recorded in the directory if it has none yet.

        Raises:
            OSError: the directory cannot be read, repaired or made.
            InconsistentTopicIdError: the directory belongs to another incarnation of the topic.
            OldFormatError: the log is of an older message format.
        """
        path = Path(directory)
        created = not path.exists()
        if created:
            path.mkdir(parents=True)
        loaded = recovery.load(
            str(path),
            config,
            clean=clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            now_ms=now_ms,
            ops=ops,
        )
        known = None if created else read_partition_metadata(str(path))
        if known is not None and topic_id is not None and known != topic_id:
            raise InconsistentTopicIdError(f"{path} belongs to topic id {known}, not {topic_id}")
        if known is None and topic_id is not None:
            write_partition_metadata(str(path), topic_id, ops)
        log = cls(path, config, loaded, known or topic_id, ops)
        log._dir_unsynced = created
        return log

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self._label}, log_start_offset={self.log_start_offset}, "
            f"log_end_offset={self.log_end_offset}, high_watermark={self._high_watermark}, "
            f"segments={len(self._segments)})"
        )

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """Settings in force; may be replaced while the log is open."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        for segment in self._segments:
            segment.config = config

    @property
    def size(self) -> int:
        """Bytes of all segments' batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; the list is not to be changed."""
        return self._segments

    @property
    def active_segment(self) -> Segment:
        """The segment that is appended to."""
        return self._active

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the newest batches, -1 when there is none."""
        return self.epochs.latest_epoch

    @property
    def high_watermark(self) -> int:
        """Offset below which records are replicated as far as asked for; kept between log start and log end."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """Offset below which every transaction is decided; what read_committed consumers may see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark
        return min(max(unstable, self.log_start_offset), self._high_watermark)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Record the topic id, if the log has none.

        Raises:
            InconsistentTopicIdError: it has another.
            KafkaStorageError: the disk failed.
        """
        if self.topic_id is not None:
            if self.topic_id != topic_id:
                raise InconsistentTopicIdError(f"{self._label} belongs to topic id {self.topic_id}, not {topic_id}")
            return
        try:
            write_partition_metadata(str(self.dir), topic_id, self._ops)
        except OSError as error:
            raise self._storage_error("record the topic id of", error) from error
        self.topic_id = topic_id

    def _set_segments(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]

    # -- appending -------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        in_transaction: bool = False,
    ) -> AppendInfo:
        """Append one record batch as the leader: check it, give it offsets, write it.

        Args:
            records: exactly one batch of magic 2, writable: offsets, leader epoch and, for LogAppendTime,
                timestamp are set in place.
            leader_epoch: of the leader that appends.
            in_transaction: the producer's transaction is known to cover this partition.

        Raises:
            KafkaError: the batch is refused and the log unchanged; or KafkaStorageError, the disk failed.
        """
        if self.offline is not None:
            raise KafkaStorageError(f"{self._label} is offline: {self.offline}")
        config = self._config
        records, header = prepare(records, config, now_ms, origin, self._label, in_transaction=in_transaction)
        producer_id = header.producer_id
        if producer_id >= 0:
            duplicate = self._check_producer(records, header, origin)
            if duplicate is not None:
                return duplicate
        first = self.log_end_offset
        last = first + header.last_offset_delta
        timestamp = header.max_timestamp
        try:
            if self._active.should_roll(len(records), last, timestamp, now_ms):
                self._roll(first, now_ms)
            epochs = self.epochs
            if leader_epoch != epochs.latest_epoch or epochs.dirty:
                epochs.assign(leader_epoch, first)
            assign_offsets(records, 0, first, leader_epoch)
            self._active.append(records, first, last, timestamp)
        except OSError as error:
            raise self._storage_error("append to", error) from error
        if producer_id >= 0:
            self._update_producer(records, header, first, last)
        self.producers.end_offset = self.log_end_offset = last + 1
        if self.recovery_point >= first:
            self._unflushed_since_ms = now_ms
        self._last_append_ms = now_ms
        append_time = timestamp if config.message_timestamp_type == LOG_APPEND_TIME else -1
        return AppendInfo(first, last, timestamp, append_time, self.log_start_offset, False)

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> AppendInfo | None:
        """Append whole batches as the leader wrote them, byte for byte; an incomplete last one is left out.

        Returns:
            What was appended, or None when there was no whole batch.

        Raises:
            CorruptMessageError: a batch is damaged.
            OffsetOutOfRangeError: the batches do not follow the log end offset.
            KafkaStorageError: the disk failed.
        """
        if self.offline is not None:
            raise KafkaStorageError(f"{self._label} is offline: {self.offline}")
        info: AppendInfo | None = None
        try:
            for position, header in iter_headers(records):
                verify_crc(records, position, header)
                if header.base_offset < self.log_end_offset:
                    raise OffsetOutOfRangeError(
                        f"Unexpected offset in append to {self._label}: {header.base_offset} is less than the next "
                        f"offset {self.log_end_offset}"
                    )
                batch = records[position : position + header.size]
                self._append_replicated(batch, header, now_ms)
                first = info.first_offset if info else header.base_offset
                info = AppendInfo(first, header.last_offset, header.max_timestamp, -1, self.log_start_offset, False)
        except RecordsError as error:
            raise as_protocol_error(error, self._label) from error
        except OSError as error:
            raise self._storage_error("append to", error) from error
        return info

    def _append_replicated(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        last = header.last_offset
        if self._active.should_roll(len(batch), last, header.max_timestamp, now_ms):
            self._roll(header.base_offset, now_ms)
        if header.partition_leader_epoch >= 0:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._active.append(batch, header.base_offset, last, header.max_timestamp)
        if self.recovery_point >= self.log_end_offset:
            self._unflushed_since_ms = now_ms
        self._last_append_ms = now_ms
        recovery.note_producer(self.producers, header, batch, self._active)
        self.log_end_offset = last + 1

    def _check_producer(self, records: memoryview, header: BatchHeader, origin: Origin) -> AppendInfo | None:
        if origin is not Origin.CLIENT:
            marker = parse_marker(records) if header.is_control else None
            if marker is not None:
                self.producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
            return None
        duplicate = self.producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK,
            transactional=header.is_transactional,
        )
        if duplicate is None:
            return None
        append_time = duplicate.timestamp if self._config.message_timestamp_type == LOG_APPEND_TIME else -1
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            append_time,
            self.log_start_offset,
            True,
        )

    def _update_producer(self, records: memoryview, header: BatchHeader, first: int, last: int) -> None:
        if header.is_control:
            header = header._replace(base_offset=first)
            recovery.note_producer(self.producers, header, records, self._active)
            return
        self.producers.update(
            header.producer_id,
            header.producer_epoch,
            (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK,
            first,
            last,
            header.max_timestamp,
            header.is_transactional,
        )

    def roll(self, now_ms: int) -> Segment:
        """Begin a new segment at the log end offset, unless the active one is empty.

        Raises:
            KafkaStorageError: the disk failed; the active segment is as it was.
        """
        try:
            self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._storage_error("roll", error) from error
        return self._active

    def _roll(self, base_offset: int, now_ms: int) -> None:
        old = self._active
        if old.size == 0 and old.base_offset == base_offset:
            return
        new = Segment.create(str(self.dir), base_offset, self._config, now_ms, self._ops)
        try:
            old.finish()
        except OSError:
            new.remove()
            raise
        self._set_segments([*self._segments, new])
        self._dir_unsynced = True
        self._flush_from_roll = True
        self.producers.end_offset = base_offset
        try:
            self.producers.take_snapshot(sync=False)
        except OSError as error:
            # The state can be rebuilt from the log; the next snapshot is tried at the next roll.
            logger.warning("No producer snapshot of %s at %d: %s", self._label, base_offset, error)

    def _storage_error(self, act: str, error: OSError) -> KafkaStorageError:
        if isinstance(error, SegmentWriteError):
            self._go_offline(f"cannot {act} it: {error}")
        else:
            logger.error("Cannot %s %s: %s", act, self.dir, error)
        return KafkaStorageError(f"Cannot {act} {self._label}: {error}")

    def _go_offline(self, reason: str) -> None:
        if self.offline is None:
            self.offline = reason
            logger.error("%s goes offline: %s", self.dir, reason)

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, max_offset: int = MAX_LONG, min_one: bool = True) -> ReadResult:
        """Slices of the log from the batch that holds ``offset`` on.

        Args:
            max_bytes: the most to return; the last batch may be cut off by it.
            max_offset: nothing at or after it is returned: the high watermark, last stable offset or log end
                offset.
            min_one: return the first batch whole even if it is larger than ``max_bytes``.

        Raises:
            OffsetOutOfRangeError: ``offset`` lies before the log start offset or after the log end offset.
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRangeError(
                f"Received request for offset {offset} for partition {self._label}, but we only have log segments "
                f"in the range {self.log_start_offset} to {end}."
            )
        if offset >= max_offset or offset == end:
            return ReadResult([], 0)
        try:
            segment = self._active
            if offset >= segment.base_offset:
                limit = segment.size if max_offset >= end else segment.limit_for(max_offset)
                piece = segment.read(offset, max_bytes, limit, min_one=min_one)
                if piece is None or not piece.length:
                    return ReadResult([], 0)
                return ReadResult([piece], piece.length)
            return self._read_across(offset, max_bytes, max_offset, min_one)
        except RecordsError as error:
            raise CorruptMessageError(f"{self._label}: {error}") from error
        except OSError as error:
            raise KafkaStorageError(f"Cannot read {self._label}: {error}") from error

    def _read_across(self, offset: int, max_bytes: int, max_offset: int, min_one: bool) -> ReadResult:
        segments, bases = self._segments, self._bases
        slices: list[FileSlice] = []
        size = 0
        for i in range(max(bisect_right(bases, offset) - 1, 0), len(segments)):
            segment = segments[i]
            if segment.base_offset >= max_offset or (slices and size >= max_bytes):
                break
            following = bases[i + 1] if i + 1 < len(bases) else self.log_end_offset
            limit = segment.size if max_offset >= following else segment.limit_for(max_offset)
            start = max(offset, segment.base_offset)
            piece = segment.read(start, max_bytes - size, limit, min_one=min_one and not slices)
            if piece is None:
                continue
            if piece.length:
                slices.append(piece)
                size += piece.length
            if piece.position + piece.length < segment.size:
                break
        return ReadResult(slices, size)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch offsets [start, end), for a reader of committed records."""
        found: list[AbortedTransaction] = []
        for segment in self._segments[max(bisect_right(self._bases, start) - 1, 0) :]:
            rows, complete = segment.transaction_index.collect(start, end)
            found += rows
            if complete:
                break
        return found

    # -- looking up offsets ----------------------------------------------------------------------------------

    def earliest_offset(self) -> TimestampOffset:
        """The log start offset, with the epoch it was written in if that is known (ListOffsets -2)."""
        entries = self.epochs.entries()
        epoch = entries[0][0] if entries and entries[0][1] <= self.log_start_offset else -1
        return TimestampOffset(-1, self.log_start_offset, epoch)

    def latest_offset(self) -> TimestampOffset:
        """The log end offset and the latest epoch (ListOffsets -1, before it is bounded by the high
        watermark).
        """
        return TimestampOffset(-1, self.log_end_offset, self.epochs.latest_epoch)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of the log (ListOffsets -3); None when no record has
        one.
        """
        segments = self._segments
        segment = max(segments, key=Segment.largest_timestamp)
        largest = segment.largest_timestamp()
        return None if largest < 0 else self._timestamp_search(segment, largest)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after ``timestamp``; None when there is none.

        Raises:
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        for segment in self._segments:
            if segment.retention_timestamp() >= timestamp:
                found = self._timestamp_search(segment, timestamp)
                if found is not None:
                    return found
        return None

    def _timestamp_search(self, segment: Segment, timestamp: int) -> TimestampOffset | None:
        try:
            return find_in_segment(segment, timestamp, self.log_start_offset)
        except RecordsError as error:
            raise CorruptMessageError(f"{self._label}: {error}") from error
        except OSError as error:
            raise KafkaStorageError(f"Cannot read {self._label}: {error}") from error

    def legacy_offsets_before(self, timestamp: int, max_count: int, now_ms: int) -> list[int]:
        """Offsets at which segments begin, last changed at or before ``timestamp``, newest first (ListOffsets
        v0).
        """
        rows = [
            (
                max(segment.base_offset, self.log_start_offset),
                os.stat(segment.path(names.LOG)).st_mtime_ns // 1_000_000,
            )
            for segment in self._segments
        ]
        if self._active.size:
            rows.append((self.log_end_offset, now_ms))
        if timestamp == -1:
            last = len(rows) - 1
        elif timestamp == -2:
            last = 0
        else:
            last = max((i for i, (_, changed) in enumerate(rows) if changed <= timestamp), default=-1)
        return sorted((offset for offset, _ in rows[max(last + 1 - max_count, 0) : last + 1]), reverse=True)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """``(epoch found, end offset)`` of the largest epoch at or below ``epoch``; ``(-1, -1)`` when
        unknown.
        """
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # -- removing --------------------------------------------------------------------------------------------

    def delete_records(self, before_offset: int) -> int:
        """Move the log start offset up to ``before_offset`` (-1: the high watermark); returns the log start
        offset.

        Raises:
            OffsetOutOfRangeError: it lies after the high watermark.
        """
        offset = self._high_watermark if before_offset == -1 else before_offset
        if offset > self._high_watermark or offset < 0:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {offset} of partition {self._label} since it is larger "
                f"than the high watermark {self._high_watermark}"
            )
        if offset > self.log_start_offset:
            self._raise_log_start(offset)
        return self.log_start_offset

    def _raise_log_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self._high_watermark = max(self._high_watermark, offset)
        self.recovery_point = max(self.recovery_point, offset)
        self.producers.on_log_start_offset(offset)
        try:
            self.epochs.truncate_from_start(offset)
        except OSError as error:
            logger.warning("Cannot write the leader epochs of %s: %s", self._label, error)

    def apply_retention(self, now_ms: int) -> list[Segment]:
        """Take the segments that retention no longer wants out of the log; their files go
        ``file.delete.delay.ms`` later.

        Raises:
            KafkaStorageError: the disk failed.
        """
        self.producers.remove_expired(now_ms)
        segments = self._segments
        try:
            count = deletable(
                segments,
                self._config,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=self._high_watermark,
                now_ms=now_ms,
            )
            if count == 0:
                return []
            if count == len(segments):
                self._roll(self.log_end_offset, now_ms)
            gone = segments[:count]
            self._set_segments(self._segments[count:])
            self._raise_log_start(max(self.log_start_offset, self._segments[0].base_offset))
            paths = [path for segment in gone for path in self._detach(segment)]
        except OSError as error:
            raise self._storage_error("apply retention to", error) from error
        self._deletions.append((now_ms + self._config.file_delete_delay_ms, paths))
        return gone

    def _detach(self, segment: Segment) -> list[str]:
        paths = segment.mark_deleted()
        snapshot = self.producers.detach_snapshot(segment.base_offset)
        return [*paths, snapshot] if snapshot else paths

    def remove_deleted(self, now_ms: int) -> int:
        """Unlink the files of deleted segments whose time has come; returns how many. May be slow on some
        disks.
        """
        removed = 0
        while self._deletions and self._deletions[0][0] <= now_ms:
            for path in self._deletions.popleft()[1]:
                self._ops.unlink(path)
                removed += 1
        return removed

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Drop every batch at or after ``offset``; returns whether there was one. Checkpoint recovery points
        after it.

        Raises:
            KafkaStorageError: the disk failed; the log is offline.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        try:
            keep = bisect_right(self._bases, offset)
            gone = self._segments[keep:]
            self._set_segments(self._segments[:keep])
            for segment in gone:
                if segment.base_offset in self.producers.snapshot_offsets:
                    self.producers.remove_snapshot(segment.base_offset)
                segment.remove()
            self._active.truncate_to(offset)
            self.epochs.truncate_from_end(offset)
            self._end_at(self._active.next_offset(), min(self.log_start_offset, offset))
            self.producers.reload(self.log_start_offset, self.log_end_offset, now_ms)
            recovery.replay(self._segments, self.producers, self.log_end_offset)
        except OSError as error:
            self._go_offline(f"cannot truncate it to {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._label}: {error}") from error
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything and begin anew at ``offset``.

        Raises:
            KafkaStorageError: the disk failed; the log is offline.
        """
        try:
            for segment in self._segments:
                segment.remove()
            self._set_segments([Segment.create(str(self.dir), offset, self._config, now_ms, self._ops)])
            self.epochs.clear()
            self.producers.start_at(offset)
        except OSError as error:
            self._go_offline(f"cannot begin it anew at {offset}: {error}")
            raise KafkaStorageError(f"Cannot truncate {self._label}: {error}") from error
        self._end_at(offset, offset)

    def _end_at(self, end: int, start: int) -> None:
        self.log_end_offset = end
        self.log_start_offset = start
        self.recovery_point = min(self.recovery_point, end)
        self._high_watermark = min(max(self._high_watermark, start), end)
        self._truncations += 1
        self._dir_unsynced = True

    # -- flushing and closing --------------------------------------------------------------------------------

    @property
    def unflushed_records(self) -> int:
        """Offsets that are not known to be on the device."""
        return self.log_end_offset - self.recovery_point

    def flush_due(self, now_ms: int) -> int | None:
        """Up to which offset a flush is due by ``flush.messages``, ``flush.ms`` or a roll; None when none is."""
        unflushed = self.log_end_offset - self.recovery_point
        config = self._config
        if unflushed >= config.flush_messages:
            return self.log_end_offset
        if unflushed and now_ms - self._unflushed_since_ms >= config.flush_ms:
            return self.log_end_offset
        return self._active.base_offset if self._flush_from_roll else None

    def needs_flush(self, now_ms: int) -> bool:
        """Whether a flush is due."""
        return self.offline is None and self.flush_due(now_ms) is not None

    def flush(self, upto: int | None = None) -> None:
        """Force everything before ``upto`` (default: the log end offset) to the device, then move the
        recovery point.

        May run on a worker's thread. The log end offset is taken at the start; records appended meanwhile may
        or may not be on the device afterwards.

        Raises:
            KafkaStorageError: it could not be forced. The log is offline from then on: what the kernel kept
            of the
                data is unknown, and a second try would not tell.
        """
        if self.offline is not None:
            raise KafkaStorageError(f"{self._label} is offline: {self.offline}")
        end = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        truncations, since = self._truncations, self._last_append_ms
        segments, start = self._segments, self.recovery_point
        if end <= start and not self._dir_unsynced and not self._flush_from_roll:
            return
        self._flush_from_roll = False
        try:
            for segment in segments[max(bisect_right([s.base_offset for s in segments], start) - 1, 0) :]:
                if segment.base_offset < end:
                    self._flush_segment(segment)
            self.producers.sync_snapshots()
            if self._dir_unsynced:
                self._dir_unsynced = False
                self._ops.fsync_dir(str(self.dir))
                self._ops.fsync_dir(str(self.dir.parent))
        except OSError as error:
            self._go_offline(f"cannot flush it: {error}")
            raise KafkaStorageError(f"Cannot flush {self._label}: {error}") from error
        if truncations == self._truncations:
            self._unflushed_since_ms = since
            self.recovery_point = max(self.recovery_point, end)

    def _flush_segment(self, segment: Segment) -> None:
        try:
            segment.flush()
        except FileNotFoundError:
            # Deleted by the loop's thread meanwhile: nothing of it needs to be anywhere.
            if segment in self._segments:
                raise

    def close(self) -> None:
        """Flush everything, leave a producer snapshot, trim the indexes. The log is not used afterwards.

        Raises:
            KafkaStorageError: something could not be forced to the device, or the log was offline: this was
            no clean
                stop.
        """
        try:
            if self.offline is None:
                if self.epochs.dirty:
                    self.epochs.flush()
                self.producers.take_snapshot(sync=True)
                self._active.finish()
                self.flush()
        except OSError as error:
            self._go_offline(f"cannot close it: {error}")
        finally:
            for segment in self._segments:
                segment.release()
        if self.offline is not None:
            raise KafkaStorageError(f"{self._label} was not closed cleanly: {self.offline}")

    def rename_for_delete(self, kind: str = names.DELETE_DIR) -> Path:
        """Give the directory a name that marks it for removal, and close the log to appends; returns the new
        path.

        With ``kind`` ``names.STRAY_DIR`` the name marks it as a log that nobody knows, and it is kept.

        Raises:
            KafkaStorageError: the disk failed.
        """
        target = self.dir.parent / names.delete_dir(self.topic, self.partition, kind)
        try:
            self._ops.rename(str(self.dir), str(target))
            self._ops.fsync_dir(str(self.dir.parent))
        except OSError as error:
            raise self._storage_error("delete", error) from error
        self.offline = "it was deleted"
        self.dir = target
        self._deletions.clear()
        for segment in self._segments:
            segment.release()
            segment.directory = str(target)
        return target

    def delete(self) -> None:
        """Remove the log and its directory, at once.

        Raises:
            KafkaStorageError: the disk failed.
        """
        target = self.rename_for_delete()
        try:
            shutil.rmtree(target)
        except OSError as error:
            raise KafkaStorageError(f"Cannot delete {target}: {error}") from error

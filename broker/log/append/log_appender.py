"""Appending to a log, as the leader or as a follower of its partition."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.log.append.append_info import AppendInfo
from broker.log.append.fetched import PlacedBatch, fetched_batches
from broker.log.append.mirrored import MirroredRecords
from broker.log.append.record_errors import as_protocol_error
from broker.log.append.validation import CheckedBatch, Origin, check_transaction, prepare
from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.files.file_ops import FileOps
from broker.log.flusher import Flusher
from broker.log.index.index_file import CorruptIndexError
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_config import LOG_APPEND_TIME, LogConfig
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.control_batches import parse_marker
from broker.log.producer_state.producer_entry import SEQUENCE_MASK
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_replay import note_producer
from broker.log.roller import Roller
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from kafkalog.protocol.errors import KafkaStorageError, OffsetOutOfRangeError
from kafkalog.records.batch import LOG_APPEND_TIME_FLAG, MAGIC, BatchHeader, assign_offsets, set_log_append_time
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

logger = logging.getLogger(__name__)


class LogAppender:
    """Append record batches to one log. On the event loop's thread.

    Attributes:
        config: the log's settings; only the log replaces them.
    """

    __slots__ = (
        "_directory", "_epochs", "_errors", "_flusher", "_offsets", "_ops", "_producers", "_roller", "_segments",
        "config",
    )  # fmt: skip

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        offsets: LogOffsets,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        flusher: Flusher,
        roller: Roller,
        errors: StorageErrors,
        config: LogConfig,
        ops: FileOps,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._offsets = offsets
        self._epochs = epochs
        self._producers = producers
        self._flusher = flusher
        self._roller = roller
        self._errors = errors
        self._ops = ops
        self.config = config

    def assign_epoch(self, epoch: int) -> None:
        """Note that the leader of `epoch` begins at the log end offset.

        Do nothing for the current epoch, or for a topic that stores v0 or v1, whose messages carry no epoch.
        """
        if self.config.message_format < MAGIC:
            return
        try:
            self._epochs.announce(epoch, self._offsets.end)
        except OSError as error:
            # The epoch is in force all the same. The next append writes it, or fails.
            logger.warning("Cannot write the leader epochs of %s: %s", self._directory.label, error)

    # -- appending -------------------------------------------------------------------------------------------

    def append_batch(
        self,
        records: memoryview | CheckedBatch,
        leader_epoch: int,
        now_ms: int,
        origin: Origin,
        in_transaction: bool,
    ) -> AppendInfo:
        """Append a batch of message format v2 as the leader: check it, give it offsets, write it.

        Args:
            records: exactly one batch, or one that a worker has checked already. It must be writable, because offsets,
                leader epoch and, for LogAppendTime, the timestamp are set in place.
            leader_epoch: of the leader that appends.
            in_transaction: the producer's transaction is known to cover this partition.

        Raises:
            KafkaError: the batch is refused, and the log has not changed; KafkaStorageError if the disk failed.
        """
        if self._errors.offline is not None:
            raise self._errors.offline_error()
        config = self.config
        label = self._directory.label
        if isinstance(records, CheckedBatch):
            header = records.header
            records = records.records
            check_transaction(header, origin, label, in_transaction=in_transaction)
            if config.message_timestamp_type == LOG_APPEND_TIME and header.max_timestamp != now_ms:
                # Other batches may have come first since a worker checked this one.
                set_log_append_time(records, 0, now_ms)
                header = header._replace(max_timestamp=now_ms, attributes=header.attributes | LOG_APPEND_TIME_FLAG)
        else:
            records, header = prepare(records, config, now_ms, origin, label, in_transaction=in_transaction)
        producer_id = header.producer_id
        if producer_id >= 0:
            duplicate = self._check_producer(records, header, origin)
            if duplicate is not None:
                return duplicate
        first = self._offsets.end
        last = first + header.last_offset_delta
        timestamp = header.max_timestamp
        try:
            if self._segments.active.should_roll(len(records), last, timestamp, now_ms):
                self._roller.roll(first, now_ms)
            epochs = self._epochs
            if leader_epoch != epochs.latest_epoch or epochs.dirty:
                self._begin_epoch(leader_epoch, first)
            assign_offsets(records, 0, first, leader_epoch)
            self._segments.active.append(records, first, last, timestamp)
        except OSError as error:
            raise self._errors.report("append to", error) from error
        self._producers.end_offset = self._offsets.end = last + 1
        if producer_id >= 0:
            self._update_producer(records, header, first, last)
        self._flusher.appended(first, now_ms)
        append_time = timestamp if config.message_timestamp_type == LOG_APPEND_TIME else -1
        return AppendInfo(first, last, timestamp, append_time, self._offsets.start, False)

    def append_mirrored(
        self, mirrored: MirroredRecords, expected_end: int, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Append batches as the leader, with the offsets that they state, if the log ends at `expected_end`.

        Mirrors of the same source, or one that repeats a request, so append each batch once.

        Raises:
            OffsetOutOfRangeError: the log ends elsewhere, or the batches begin before its end.
            KafkaStorageError: the disk failed; some of the batches may be appended.
        """
        if self._errors.offline is not None:
            raise self._errors.offline_error()
        end, (_, first) = self._offsets.end, mirrored.batches[0]
        if end != expected_end or first.base_offset < end:
            raise OffsetOutOfRangeError(
                f"The log of {self._directory.label} ends at offset {end}; a mirror sent offset {first.base_offset} "
                f"for a log that ends at {expected_end}"
            )
        latest = first.max_timestamp
        try:
            for position, header in mirrored.batches:
                base, last = header.base_offset, header.last_offset
                if self._segments.active.should_roll(header.size, last, header.max_timestamp, now_ms):
                    self._roller.roll(self._next_segment_base(header), now_ms)
                epochs = self._epochs
                if leader_epoch != epochs.latest_epoch or epochs.dirty:
                    self._begin_epoch(leader_epoch, base)
                assign_offsets(mirrored.records, position, base, leader_epoch)
                batch = mirrored.records[position : position + header.size]
                self._segments.active.append(batch, base, last, header.max_timestamp)
                self._producers.end_offset = self._offsets.end = last + 1
                self._flusher.appended(base, now_ms)
                latest = max(latest, header.max_timestamp)
        except OSError as error:
            raise self._errors.report("append to", error) from error
        return AppendInfo(first.base_offset, self._offsets.end - 1, latest, -1, self._offsets.start, False)

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        """Note that a leader epoch has records from an offset on, if that is not known.

        Raises:
            OSError: the file of the leader epochs cannot be written.
        """
        if self._epochs.assign(epoch, offset):
            self._flusher.names_unsynced = True

    def forget_epochs(self, magic: int) -> None:
        """Clear the leader epochs, because messages of v0 and v1 do not carry them.

        From here on followers truncate to the high watermark, as in Kafka.
        """
        if self._epochs.latest_epoch >= 0:
            label = self._directory.label
            logger.warning("Clearing the leader epochs of %s, which stores message format v%d now", label, magic)
            self._epochs.clear()

    def append_as_follower(
        self, records: memoryview, *, now_ms: int, leader_epoch: int | None = None
    ) -> AppendInfo | None:
        """Append whole batches byte for byte as the leader wrote them; leave out an incomplete last one.

        Args:
            leader_epoch: the epoch in which the leader is followed. From a batch of a later one on, all are left out:
                the leader's log may have been truncated meanwhile (KAFKA-18723).

        Returns:
            What was appended, or None if there was no whole batch.

        Raises:
            CorruptMessageError: a batch is damaged.
            OffsetOutOfRangeError: a batch begins before the log end offset.
            KafkaStorageError: the disk failed.
        """
        if self._errors.offline is not None:
            raise self._errors.offline_error()
        found = fetched_batches(records, self._offsets.end, leader_epoch, self._directory.label)
        try:
            for run in found.runs:
                self._append_run(records, run, now_ms)
        except RecordsError as error:
            # The active segment, or a control batch, does not read.
            raise as_protocol_error(error, self._directory.label) from error
        except OSError as error:
            raise self._errors.report("append to", error) from error
        if found.error is not None:
            raise found.error
        if not found.runs:
            return None
        (_, first), (_, last) = found.runs[0][0], found.runs[-1][-1]
        return AppendInfo(first.base_offset, last.last_offset, last.max_timestamp, -1, self._offsets.start, False)

    def _append_run(self, records: memoryview, run: Sequence[PlacedBatch], now_ms: int) -> None:
        if len(run) == 1 or (self._segments.active.size and not self._is_roll_due(run, now_ms)):
            self._append_together(records, run, now_ms)
            return
        # A batch of them may begin a segment.
        for each in run:
            self._append_together(records, [each], now_ms)

    def _next_segment_base(self, header: BatchHeader) -> int:
        """Return the base offset of a segment that begins with this batch: the log end offset.

        A gap before the batch then lies within the segment. Between two segments, recovery would take it for records
        that were lost. A batch that is too far from the log end for the index of its segment begins there itself. (A
        wrapper message of v0 or v1 carries its last offset only.)
        """
        end = self._offsets.end
        is_far = header.magic == MAGIC and header.last_offset - end > MAX_RELATIVE_OFFSET
        return header.base_offset if is_far else end

    def _is_roll_due(self, batches: Sequence[PlacedBatch], now_ms: int) -> bool:
        (start, _), (at, last) = batches[0], batches[-1]
        latest = max(header.max_timestamp for _, header in batches)
        size = at + last.size - start
        return self._segments.active.should_roll(size, last.last_offset, latest, now_ms, len(batches))

    def _append_together(self, records: memoryview, batches: Sequence[PlacedBatch], now_ms: int) -> None:
        """Append batches of one run by one write. Only a single batch may begin a new segment."""
        (start, first), (at, last) = batches[0], batches[-1]
        if len(batches) == 1 and self._is_roll_due(batches, now_ms):
            self._roller.roll(self._next_segment_base(first), now_ms)
        if first.magic < MAGIC:
            self.forget_epochs(first.magic)
        if first.partition_leader_epoch >= 0:
            self._begin_epoch(first.partition_leader_epoch, first.base_offset)
        active = self._segments.active
        shift = active.size - start
        active.write(records[start : at + last.size])
        self._flusher.appended(self._offsets.end, now_ms)
        # Nothing here may fail before the last batch, because the file has all of them. Control batches are last.
        for position, header in batches:
            active.note_batch(
                position + shift, header.size, header.base_offset, header.last_offset, header.max_timestamp
            )
            self._offsets.end = header.last_offset + 1
            self._note_producer(header, records[position : position + header.size])

    def _check_producer(self, records: memoryview, header: BatchHeader, origin: Origin) -> AppendInfo | None:
        if origin is not Origin.CLIENT:
            if not header.is_control:
                self._producers.check_fenced(header.producer_id, header.producer_epoch)
                return None
            marker = parse_marker(records)
            if marker is not None:
                self._producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
            return None
        duplicate = self._producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK,
            transactional=header.is_transactional,
        )
        if duplicate is None:
            return None
        append_time = duplicate.timestamp if self.config.message_timestamp_type == LOG_APPEND_TIME else -1
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            append_time,
            self._offsets.start,
            True,
        )

    def _update_producer(self, records: memoryview, header: BatchHeader, first: int, last: int) -> None:
        if header.is_control:
            self._note_producer(header._replace(base_offset=first), records)
            return
        self._producers.update(
            header.producer_id,
            header.producer_epoch,
            (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK,
            first,
            last,
            header.max_timestamp,
            header.is_transactional,
        )

    def _note_producer(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            if note_producer(self._producers, header, batch, self._segments.active):
                # The next flush, or a clean stop, must not vouch for a file whose name is not safe.
                self._flusher.names_unsynced = True
        except CorruptIndexError as error:
            logger.warning("%s is rebuilt when it is read: %s", self._segments.active.path(names.TXN_INDEX), error)
            self._spoil_transactions()
        except OSError as error:
            raise self._without_index(error) from error

    def _spoil_transactions(self) -> None:
        """Let no reader believe the active segment's transaction index, which lacks a marker that is in the log.

        To build it anew reads the whole log, so a worker does that for the first reader that needs it.
        """
        try:
            self._segments.active.aborted.spoil()
        except OSError as error:
            raise self._without_index(error) from error

    def _without_index(self, error: OSError) -> KafkaStorageError:
        """Take the log offline: readers of committed records would not see a marker. Recovery will index it."""
        self._errors.go_offline(f"cannot index an aborted transaction: {error}")
        return KafkaStorageError(f"Cannot append to {self._directory.label}: {error}")

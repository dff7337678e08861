"""Appending message sets of v0 and v1 as the leader, and records that were converted from or to these formats."""

from __future__ import annotations

from broker.log.append.append_info import AppendInfo
from broker.log.append.legacy.message_sets import PreparedSet, prepare_set
from broker.log.append.log_appender import LogAppender
from broker.log.append.validation import CheckedBatch, Origin, check_size
from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.flusher import Flusher
from broker.log.log_config import LOG_APPEND_TIME, LogConfig
from broker.log.log_offsets import LogOffsets
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.roller import Roller
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from kafkalog.records.batch import MAGIC


class LegacyAppender:
    """Append message sets to one log. On the event loop's thread.

    Attributes:
        config: the log's settings; only the log replaces them.
        conversions: how many records were converted from another message format.
    """

    __slots__ = (
        "_batches", "_directory", "_errors", "_flusher", "_offsets", "_producers", "_roller", "_segments", "config",
        "conversions",
    )  # fmt: skip

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        offsets: LogOffsets,
        producers: ProducerStateManager,
        flusher: Flusher,
        roller: Roller,
        errors: StorageErrors,
        batches: LogAppender,
        config: LogConfig,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._offsets = offsets
        self._producers = producers
        self._flusher = flusher
        self._roller = roller
        self._errors = errors
        self._batches = batches
        self.config = config
        self.conversions = 0

    def append(
        self, prepared: PreparedSet | None, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Append what `message_sets.prepare_set` returned, possibly on a worker.

        None stands for a set without a whole message: nothing is appended, and `first_offset` is -1.

        Raises:
            KafkaError: the set is refused, and the log has not changed; KafkaStorageError if the disk failed.
        """
        if self._errors.offline is not None:
            raise self._errors.offline_error()
        if prepared is not None and prepared.magic == MAGIC:
            batch, converted = prepared.batch(self.config), prepared.converted
            if isinstance(batch, CheckedBatch) or self.config.message_format >= MAGIC:
                info = self._batches.append_batch(batch, leader_epoch, now_ms, origin, in_transaction=False)
                self.conversions += converted
                return info
            # The topic's message format was changed while a worker prepared the set.
            prepared = prepare_set(batch, self.config, now_ms, origin, self._directory.label)
            self.conversions += converted
        first = self._offsets.end
        if prepared is None:
            return AppendInfo(-1, first - 1, -1, -1, self._offsets.start, False)
        prepared.assign(first)
        info = self._append_set(prepared, now_ms)
        self.conversions += prepared.converted
        return info

    def _append_set(self, prepared: PreparedSet, now_ms: int) -> AppendInfo:
        config = self.config
        first, data = self._offsets.end, memoryview(prepared.data)
        for entry in prepared.entries:
            check_size(entry.size, config, self._directory.label)
        last, timestamp = first + prepared.count - 1, prepared.max_timestamp
        try:
            if self._segments.active.should_roll(len(data), last, timestamp, now_ms):
                self._roller.roll(first, now_ms)
            self._batches.forget_epochs(prepared.magic)
            active = self._segments.active
            position = active.size
            active.write(data)
            for entry in prepared.entries:
                at = first + entry.last
                active.note_batch(position + entry.position, entry.size, at, at, entry.max_timestamp)
        except OSError as error:
            raise self._errors.report("append to", error) from error
        self._producers.end_offset = self._offsets.end = last + 1
        self._flusher.appended(first, now_ms)
        append_time = -1
        if config.message_timestamp_type == LOG_APPEND_TIME:
            # v1 got its timestamp when it was checked, perhaps earlier on a worker; v0 stores no timestamp.
            append_time = timestamp if prepared.magic else now_ms
        return AppendInfo(first, last, timestamp, append_time, self._offsets.start, False)

"""The log of one partition: an append-only sequence of record batches, in segments.

A log holds the offsets from the log start offset up to, but not including, the log end offset. The replica that owns
the log sets the high watermark, which bounds what consumers see, what retention may delete and which records may be
deleted. Everything before the recovery point is known to be on the device.

A `Log` is made of parts. Each part has its own state and touches only what its constructor takes:

- `directories.partition_directory`        where the log lies, its topic id
- `segment.segment_list`                   the segments, and which of them holds an offset
- `log_offsets`                            start, end, high watermark, last stable offset
- `leader_epoch_cache`                     leader epochs and where they began (`epochs`)
- `producer_state.producer_state_manager`  idempotent and transactional producers (`producers`)
- `storage_errors`                         answers to errors of the disk; whether the log is offline
- `flusher`                                recovery point; forcing the log to the device
- `roller`                                 new segments
- `read.log_reader`                        slices, look-ups by time and epoch, aborted transactions
- `append.log_appender`                    appends of a leader and of a follower
- `append.legacy.message_set_appender`     appends of message sets of v0 and v1
- `retention.log_remover`                  record deletion, retention, compacted segments
- `truncation`                             removing records from the end
- `directories.directory_move`             another name or place for the directory

Which thread may call what:

| call                                                               | thread                                          |
|--------------------------------------------------------------------|-------------------------------------------------|
| `append…`, `read`, look-ups, `roll`, `delete_records`,             | the loop's                                      |
| `apply_retention`, `replace_segments`, `plan…`, `truncate…`,       |                                                 |
| `relocate`, `rename_for_delete`, `assign_…`; setting anything      |                                                 |
| `flush`, `flush_due`, `flush_if_due`                               | any, beside the loop's; one flush at a time     |
| holding `flushes`                                                  | any; no flush runs meanwhile                    |
| `remove_deleted`                                                   | one worker's, beside the loop's                 |
| `aborted_transactions`                                             | any, beside the loop's                          |
| what `missing`, `missing_for_…` and `time_search` return           | any, beside the loop's                          |
| `read` of what `plan_truncation` returns                           | any, beside the loop's                          |
| reading `segments`, `size`, `config`, `truncations` and offsets    | any; each is whole, two of them need not agree  |
| `offline`: reading and setting it                                  | any                                             |
| `open`, `close`                                                    | one; no other call before or after              |

Failures: when a write fails, it is undone and the append answers KAFKA_STORAGE_ERROR; the next append may succeed. When
it cannot be undone, or when an fsync fails, nobody knows what the file holds. Then the log goes offline: appends fail
from then on, and reads of what is there go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import UUID

from broker.log.alter_dirs.extents import log_files
from broker.log.alter_dirs.plan import Extent
from broker.log.append.append_info import AppendInfo
from broker.log.append.legacy.message_sets import PreparedSet
from broker.log.append.mirrored import MirroredRecords
from broker.log.append.validation import CheckedBatch, Origin
from broker.log.files.file_ops import OS, FileOps
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS
from broker.log.log_config import MAX_LONG, LogConfig
from broker.log.log_parts import LogParts
from broker.log.read.time_search import Candidate, TimestampOffset
from broker.log.recovery.log_opening import open_parts
from broker.log.resources import LogResources
from broker.log.retention.retention_policy import TIME_AND_SIZE, RetentionPolicy
from broker.log.segment.file_slices import ReadResult
from broker.log.segment.segment import Segment
from broker.log.truncation_plan import TruncationPlan
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import AbortedTransaction


class Log:
    """Append to, read and shorten the log of one partition; made by `open`.

    The module's docstring says which thread may call what.

    Attributes:
        epochs: leader epochs and where they began.
        offsets: the offsets that bound the log; only the log and its parts change them.
        producers: state of the idempotent and transactional producers.
        being_cleaned: whether the log is being compacted; nothing else may remove segments meanwhile.
        being_moved: whether the log is being moved to another log directory; it is not compacted meanwhile.
        also_in: a second log directory whose checkpoints have rows of this log, until the names that a move gave are
            on the device; else None.
        fetch_message_conversions: records converted for consumers since the log was opened.
    """

    __slots__ = (
        "_appender", "_directory", "_errors", "_flusher", "_legacy", "_move", "_reader", "_remover",
        "_roller", "_segments", "_truncation", "also_in", "being_cleaned", "being_moved", "epochs",
        "fetch_message_conversions", "offsets", "producers",
    )  # fmt: skip

    def __init__(self, parts: LogParts) -> None:
        self._directory = parts.directory
        self._segments = parts.segments
        self._errors = parts.errors
        self._flusher = parts.flusher
        self._roller = parts.roller
        self._reader = parts.reader
        self._appender = parts.appender
        self._legacy = parts.legacy
        self._remover = parts.remover
        self._move = parts.move
        self._truncation = parts.truncation
        self.offsets = parts.offsets
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.being_cleaned = False
        self.being_moved = False
        self.also_in: Path | None = None
        self.fetch_message_conversions = 0

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
        resources: LogResources | None = None,
    ) -> Log:
        """Open the log in `directory`; make the directory if there is none.

        Args:
            clean: the last stop was clean. Otherwise the log is recovered.
            log_start_offset: from the checkpoint; 0 if it has no row.
            recovery_point: from the checkpoint; 0 if it has no row.
            now_ms: milliseconds since the epoch.
            topic_id: recorded in the directory if it has none yet.
            resources: what the logs of the broker share, `ops` included; by default the log has its own.

        Raises:
            OSError: the directory cannot be read, repaired or made.
            InconsistentTopicIdError: the directory belongs to another incarnation of the topic.
        """
        parts = open_parts(
            Path(directory),
            config,
            clean=clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            now_ms=now_ms,
            topic_id=topic_id,
            resources=resources or LogResources(ops),
        )
        return cls(parts)

    def __repr__(self) -> str:
        offsets = self.offsets
        return (
            f"Log({self._directory.label}, log_start_offset={offsets.start}, log_end_offset={offsets.end}, "
            f"high_watermark={offsets.high_watermark}, segments={len(self._segments.all)})"
        )

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def dir(self) -> Path:
        """Directory of the partition."""
        return self._directory.path

    @property
    def log_dir(self) -> Path:
        """The log directory in which the log was opened, or to which it was moved."""
        return self._directory.log_dir

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._directory.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self._directory.partition

    @property
    def topic_id(self) -> UUID | None:
        """Id of the topic, or None if none is recorded."""
        return self._directory.topic_id

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Record the topic id if the log has none.

        Raises:
            InconsistentTopicIdError: the log has another one.
            KafkaStorageError: the disk failed.
        """
        try:
            self._directory.assign_topic_id(topic_id)
        except OSError as error:
            raise self._errors.report("record the topic id of", error) from error

    @property
    def config(self) -> LogConfig:
        """Settings in force. They may be replaced while the log is open."""
        return self._appender.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._appender.config = self._legacy.config = self._remover.config = config
        self._flusher.config = self._roller.config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        for segment in self._segments.all:
            segment.config = config

    @property
    def offline(self) -> str | None:
        """The reason why the log takes no more appends, or None."""
        return self._errors.offline

    @offline.setter
    def offline(self, reason: str) -> None:
        self._errors.offline = reason

    def when_offline(self, act: Callable[[Path, str], None]) -> None:
        """Call `act` with the log directory and the reason when an error of the disk takes the log offline.

        It is called on the thread on which that happens.
        """
        self._errors.on_offline = act

    @property
    def size(self) -> int:
        """Size of the batches of all segments, in bytes."""
        return sum(segment.size for segment in self._segments.all)

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first. Callers must not change the list."""
        return self._segments.all

    @property
    def active_segment(self) -> Segment:
        """The last segment, which takes the appends."""
        return self._segments.active

    @property
    def produce_message_conversions(self) -> int:
        """Records converted from producers' message formats since the log was opened."""
        return self._legacy.conversions

    # -- offsets ---------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.offsets.start

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.offsets.end

    @property
    def high_watermark(self) -> int:
        """Records below this offset are on all in-sync replicas. It lies between log start and log end."""
        return self.offsets.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self.offsets.set_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below this offset is decided. It bounds what read_committed consumers see."""
        return self.offsets.last_stable

    @property
    def cleaned_offset(self) -> int | None:
        """The offset up to which the log was compacted; None if it never was."""
        return self.offsets.cleaned

    @cleaned_offset.setter
    def cleaned_offset(self, offset: int | None) -> None:
        self.offsets.cleaned = offset

    @property
    def recovery_point(self) -> int:
        """Everything before this offset is on the device."""
        return self._flusher.recovery_point

    @property
    def unflushed_records(self) -> int:
        """The number of offsets that are not known to be on the device."""
        return self.offsets.end - self._flusher.recovery_point

    @property
    def truncations(self) -> int:
        """A number that changes with each truncation."""
        return self._flusher.truncations

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch, or -1 when there is none."""
        return self.epochs.latest_epoch

    # -- reading: `LogReader` --------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, max_offset: int = MAX_LONG, min_one: bool = True) -> ReadResult:
        """See `LogReader.read`."""
        return self._reader.read(offset, max_bytes, max_offset, min_one)

    def missing(self, offset: int, max_bytes: int, *, committed: bool = False) -> Callable[[], None] | None:
        """See `LogReader.missing`."""
        return self._reader.missing(offset, max_bytes, committed=committed)

    def is_in_older_segment(self, offset: int, end: int) -> bool:
        """See `LogReader.is_in_older_segment`."""
        return self._reader.is_in_older_segment(offset, end)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """See `LogReader.aborted_transactions`."""
        return self._reader.aborted_transactions(start, end)

    def aborted_within(self, start: int, result: ReadResult, max_offset: int) -> list[AbortedTransaction]:
        """See `LogReader.aborted_within`."""
        return self._reader.aborted_within(start, result, max_offset)

    def earliest_offset(self) -> TimestampOffset:
        """See `LogReader.earliest_offset`."""
        return self._reader.earliest_offset()

    def latest_offset(self) -> TimestampOffset:
        """See `LogReader.latest_offset`."""
        return self._reader.latest_offset()

    def missing_for_time(self, timestamp: int) -> Callable[[], None] | None:
        """See `LogReader.missing_for_time`."""
        return self._reader.missing_for_time(timestamp)

    def time_search(self, timestamp: int) -> Iterator[Candidate]:
        """See `LogReader.time_search`."""
        return self._reader.time_search(timestamp)

    def legacy_offsets_before(self, timestamp: int, max_count: int, now_ms: int) -> list[int]:
        """See `LogReader.legacy_offsets_before`."""
        return self._reader.legacy_offsets_before(timestamp, max_count, now_ms)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """See `LogReader.end_offset_for_epoch`."""
        return self._reader.end_offset_for_epoch(epoch)

    # -- appending: `LogAppender` ----------------------------------------------------------------------------

    def assign_epoch(self, epoch: int) -> None:
        """See `LogAppender.assign_epoch`."""
        self._appender.assign_epoch(epoch)

    def append_batch(
        self,
        records: memoryview | CheckedBatch,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        in_transaction: bool = False,
    ) -> AppendInfo:
        """Append a v2 batch to a log that stores v2; see `LogAppender.append_batch`."""
        return self._appender.append_batch(records, leader_epoch, now_ms, origin, in_transaction)

    def append_mirrored(
        self, mirrored: MirroredRecords, expected_end: int, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """See `LogAppender.append_mirrored`."""
        return self._appender.append_mirrored(mirrored, expected_end, leader_epoch, now_ms)

    def append_legacy(
        self, prepared: PreparedSet | None, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Append records where v0 or v1 is sent or stored; see `LegacyAppender.append`."""
        return self._legacy.append(prepared, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)

    def append_as_follower(
        self, records: memoryview, *, now_ms: int, leader_epoch: int | None = None
    ) -> AppendInfo | None:
        """See `LogAppender.append_as_follower`."""
        return self._appender.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)

    def roll(self, now_ms: int) -> Segment:
        """Begin a new segment at the log end offset, unless the active segment is empty; return the active segment.

        Raises:
            KafkaStorageError: the disk failed; the active segment has not changed.
        """
        try:
            self._roller.roll(self.offsets.end, now_ms)
        except OSError as error:
            raise self._errors.report("roll", error) from error
        return self._segments.active

    # -- taking records out: `LogRemover`, `Truncation` ------------------------------------------------------

    def delete_records(self, before_offset: int) -> int:
        """See `LogRemover.delete_records`."""
        return self._remover.delete_records(before_offset)

    def apply_retention(
        self, now_ms: int, policy: RetentionPolicy = TIME_AND_SIZE, most: int | None = None
    ) -> list[Segment]:
        """See `LogRemover.apply_retention`."""
        return self._remover.apply_retention(now_ms, policy, most)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> bool:
        """See `LogRemover.replace_segments`."""
        return self._remover.replace_segments(new, old, now_ms)

    def remove_deleted(self, now_ms: int) -> int:
        """See `LogRemover.remove_deleted`."""
        return self._remover.remove_deleted(now_ms)

    def plan_truncation(self, offset: int, *, now_ms: int) -> TruncationPlan | None:
        """See `Truncation.plan`."""
        return self._truncation.plan(offset, now_ms=now_ms)

    def missing_for_truncation(self, offset: int) -> Callable[[], None] | None:
        """See `LogReader.missing_for_truncation`."""
        return self._reader.missing_for_truncation(offset)

    def truncate_to(self, offset: int, *, now_ms: int, planned: TruncationPlan | None = None) -> bool:
        """See `Truncation.to`."""
        return self._truncation.to(offset, now_ms=now_ms, planned=planned)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """See `Truncation.fully`."""
        self._truncation.fully(offset, now_ms=now_ms)

    # -- flushing: `Flusher` ---------------------------------------------------------------------------------

    @property
    def names_unsynced(self) -> bool:
        """Return whether a power failure may undo that files were made, renamed or removed."""
        return self._flusher.names_unsynced

    @property
    def flushes(self) -> AbstractContextManager[object]:
        """The lock that a flush holds. A worker that holds it keeps the recovery point where it is."""
        return self._flusher.lock

    def flush_due(self, now_ms: int) -> int | None:
        """See `Flusher.due`."""
        return self._flusher.due(now_ms)

    def flush_if_due(self, now_ms: int) -> bool:
        """See `Flusher.flush_if_due`."""
        return self._flusher.flush_if_due(now_ms)

    def flush(self, upto: int | None = None) -> None:
        """See `Flusher.flush`."""
        self._flusher.flush(upto)

    # -- closing, moving --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush everything, write a producer snapshot and trim the indexes. The log must not be used afterwards.

        Raises:
            KafkaStorageError: something could not be forced to the device, or the log was offline. The stop was not
                clean.
        """
        try:
            if self._errors.offline is None:
                if not self.epochs.is_stored and self.epochs.covers(self.offsets.end):
                    self.epochs.flush()
                self.producers.take_snapshot(sync=True)
                if self._segments.active.finish():
                    # The records may be on the device already, but the indexes were closed and trimmed just now.
                    self._flusher.rolled()
                self._flusher.flush()
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                raise KafkaStorageError(f"{self._directory.label} was not closed cleanly: {error}") from error
            self._errors.go_offline(f"cannot close it: {error}")
        finally:
            for segment in self._segments.all:
                segment.release()
        if self._errors.offline is not None:
            raise KafkaStorageError(f"{self._directory.label} was not closed cleanly: {self._errors.offline}")

    def rename_for_delete(self, kind: str = names.DELETE_DIR, *, sync: bool = True) -> Path:
        """See `DirectoryMove.rename_for_delete`."""
        return self._move.rename_for_delete(kind, sync=sync)

    def relocate(self, future: Path, epochs: list[tuple[int, int]]) -> Path:
        """See `DirectoryMove.relocate`."""
        return self._move.relocate(future, epochs)

    def files(self) -> dict[str, Extent]:
        """Return the files that make the log, by name, as they are now; see `log_files`."""
        return log_files(self._segments.all, self.producers.snapshot_offsets, self._flusher.truncations)

"""Reading a log: slices by offset, offsets by timestamp and leader epoch, aborted transactions."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.files.file_ops import FileOps
from broker.log.index.index_file import CorruptIndexError
from broker.log.index.transaction_index import TransactionIndex
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_offsets import LogOffsets
from broker.log.read import cold_reads
from broker.log.read.time_search import Candidate, TimestampOffset, candidates
from broker.log.recovery.transaction_rebuild import TransactionRebuild, rebuild_transaction_index
from broker.log.segment.file_slices import FileSlice, ReadResult
from broker.log.segment.segment import Segment
from broker.log.segment.segment_list import SegmentList
from kafkalog.protocol.errors import CorruptMessageError, KafkaStorageError, OffsetOutOfRangeError
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import AbortedTransaction

logger = logging.getLogger(__name__)


MAX_TIMESTAMP = -3
"""In place of a timestamp: the largest one of the log."""


class IndexNotReadyError(Exception):
    """A damaged transaction index has to be rebuilt first; `missing` returns the work."""


class LogReader:
    """Read one log.

    Call it on the event loop's thread; `aborted_transactions`, and what `time_search` and each `missing…` return, may
    run on any thread.
    """

    __slots__ = ("_directory", "_epochs", "_offsets", "_ops", "_rebuilds", "_segments")

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        offsets: LogOffsets,
        epochs: LeaderEpochCache,
        ops: FileOps,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._offsets = offsets
        self._epochs = epochs
        self._ops = ops
        self._rebuilds: dict[Segment, TransactionRebuild] = {}
        """The transaction indexes that are damaged."""

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, max_offset: int, min_one: bool) -> ReadResult:
        """Return slices of the log from the batch that holds `offset` on.

        Args:
            max_bytes: the most bytes to return; the last batch may be cut off by it.
            max_offset: nothing at or after it is returned: the high watermark, last stable offset or log end
                offset.
            min_one: return the first batch whole even if it is larger than `max_bytes`.

        Raises:
            OffsetOutOfRangeError: `offset` lies before the log start offset or after the log end offset.
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        offsets = self._offsets
        end = offsets.end
        if not offsets.start <= offset <= end:
            raise OffsetOutOfRangeError(
                f"Received request for offset {offset} for partition {self._directory.label}, but we only have log "
                f"segments in the range {offsets.start} to {end}."
            )
        if offset >= max_offset or offset == end:
            return ReadResult([], 0)
        try:
            segment = self._segments.active
            if offset >= segment.base_offset:
                limit = segment.size if max_offset >= end else segment.limit_for(max_offset)
                piece = segment.read(offset, max_bytes, limit, min_one=min_one)
                if piece is None or not piece.length:
                    return ReadResult([], 0)
                return ReadResult([piece], piece.length)
            return self._read_across(offset, max_bytes, max_offset, min_one)
        except RecordsError as error:
            raise CorruptMessageError(f"{self._directory.label}: {error}") from error
        except OSError as error:
            raise KafkaStorageError(f"Cannot read {self._directory.label}: {error}") from error

    def is_in_older_segment(self, offset: int, end: int) -> bool:
        """Return whether `offset` lies in an older segment than `end`, the offset up to which one may read."""
        segments = self._segments
        if offset >= segments.active.base_offset or offset >= end:
            return False
        return bisect_right(segments.bases, offset) < bisect_right(segments.bases, end)

    def missing(self, offset: int, max_bytes: int, *, committed: bool = False) -> Callable[[], None] | None:
        """Return what a worker must read before `read` can do without the disk; None when nothing is missing.

        It is one step: call this again afterwards. Errors are left for `read` to report.

        Args:
            committed: `aborted_within` is called as well. A damaged index that it has found is built anew.
        """
        if committed and (step := self._missing_aborted()) is not None:
            return step
        if not self._offsets.start <= offset < self._offsets.end:
            return None
        segment = self._segments.active
        if offset < segment.base_offset:
            segment = self._segments.all[self._segments.index_of(offset)]
        try:
            return cold_reads.missing(segment, offset, max_bytes)
        except (OSError, CorruptIndexError, RecordsError):
            return None

    def _read_across(self, offset: int, max_bytes: int, max_offset: int, min_one: bool) -> ReadResult:
        segments, bases = self._segments.all, self._segments.bases
        slices: list[FileSlice] = []
        size = 0
        for i in range(self._segments.index_of(offset), len(segments)):
            segment = segments[i]
            if segment.base_offset >= max_offset or (slices and size >= max_bytes):
                break
            if slices and cold_reads.lacks_index(segment):
                # The next read begins there, and `missing` has a worker scan the log for it.
                break
            following = bases[i + 1] if i + 1 < len(bases) else self._offsets.end
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
        """Return the aborted transactions that touch offsets [start, end), for a reader of committed records.

        A damaged index is rebuilt from the log.

        Raises:
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        return self._aborted(start, end, self._rebuilt_transactions)

    def _aborted(
        self, start: int, end: int, rebuilt: Callable[[Segment, CorruptIndexError], TransactionIndex]
    ) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in self._segments.all[self._segments.index_of(start) :]:
            try:
                rows, complete = segment.aborted.collect(start, end)
            except CorruptIndexError as error:
                rows, complete = rebuilt(segment, error).collect(start, end)
            except OSError as error:
                raise KafkaStorageError(f"Cannot read {self._directory.label}: {error}") from error
            found += rows
            if complete:
                break
        return found

    def aborted_within(self, start: int, result: ReadResult, max_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch what `read(start, ..., max_offset=max_offset)` returned.

        The slices are not read: the index tells roughly where they end. So a few of the transactions may begin after
        the slices.

        Raises:
            IndexNotReadyError: an index is damaged, and has to be rebuilt from the log.
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        if not result.slices:
            return []
        last = result.slices[-1]
        segments, bases = self._segments.all, self._segments.bases
        for i in range(self._segments.index_of(start), len(segments)):
            segment = segments[i]
            if segment.file is last.file:
                following = segment.offset_index.lookup_position_after(last.position + last.length)
                if following is None and i + 1 < len(bases):
                    following = bases[i + 1]
                if following is not None:
                    max_offset = min(max_offset, following)
                break
        return self._aborted(start, max_offset, self._unready_transactions)

    def _missing_aborted(self) -> Callable[[], None] | None:
        for segment, rebuild in list(self._rebuilds.items()):
            if rebuild.is_running:
                # Another reader waits for it. This one must not hold a second worker.
                continue
            if rebuild.is_void or segment not in self._segments.all:
                del self._rebuilds[segment]
            elif (step := self._rebuild(rebuild)) is not None:
                return step
        return None

    def _rebuild(self, rebuild: TransactionRebuild) -> Callable[[], None] | None:
        """Return the next step of a rebuild; None once the index is written, or cannot be."""
        segment = rebuild.segment
        if rebuild.done and segment.size - rebuild.size > cold_reads.SEARCH_BYTES:
            rebuild.grow(segment.size)
        if not rebuild.done:
            return rebuild.run
        rebuild.grow(segment.size)
        rebuild.run()
        if rebuild.error is None:
            try:
                rebuild.write()
            except OSError as error:
                rebuild.error = error
            else:
                del self._rebuilds[segment]
        return None

    def _unready_transactions(self, segment: Segment, damage: CorruptIndexError) -> TransactionIndex:
        rebuild = self._rebuilds.get(segment)
        if rebuild is None or rebuild.is_void:
            self._begin_rebuild(segment, damage)
        elif rebuild.error is not None:
            if isinstance(rebuild.error, OSError):
                # It may pass, while damaged records stay as they are.
                del self._rebuilds[segment]
                raise KafkaStorageError(f"Cannot read {self._directory.label}: {rebuild.error}") from rebuild.error
            raise CorruptMessageError(f"{self._directory.label}: {rebuild.error}") from rebuild.error
        raise IndexNotReadyError(str(damage)) from damage

    def _begin_rebuild(self, segment: Segment, damage: CorruptIndexError) -> TransactionRebuild:
        logger.warning("Rebuilding the transaction index of %s: %s", segment, damage)
        rebuild = self._rebuilds[segment] = TransactionRebuild(self._segments.all, segment, self._ops)
        return rebuild

    def missing_for_truncation(self, offset: int) -> Callable[[], None] | None:
        """Return what a worker must do before a truncation to `offset` is planned, or None.

        It is one step: call this again afterwards. Errors are left for the plan to report.
        """
        if not self._segments.all[0].base_offset <= offset < self._offsets.end:
            return None
        segment = self._segments.all[self._segments.index_of(offset)]
        try:
            if (step := cold_reads.missing_for_cut(segment, offset)) is not None:
                return step
            segment.aborted.index.items()
        except CorruptIndexError as damage:
            rebuild = self._rebuilds.get(segment)
            if rebuild is None or rebuild.is_void:
                rebuild = self._begin_rebuild(segment, damage)
            return self._rebuild(rebuild)
        except (OSError, RecordsError):
            pass
        return None

    def _rebuilt_transactions(self, segment: Segment, damage: CorruptIndexError) -> TransactionIndex:
        logger.warning("Rebuilding the transaction index of %s: %s", segment, damage)
        try:
            rebuild_transaction_index(self._segments.all, segment, self._ops)
        except RecordsError as error:
            raise CorruptMessageError(f"{self._directory.label}: {error}") from error
        except OSError as error:
            raise KafkaStorageError(f"Cannot read {self._directory.label}: {error}") from error
        return segment.aborted.index

    # -- looking up offsets ----------------------------------------------------------------------------------

    def earliest_offset(self) -> TimestampOffset:
        """Return the log start offset, with its leader epoch if that is known (ListOffsets -2)."""
        entries = self._epochs.entries()
        epoch = entries[0][0] if entries and entries[0][1] <= self._offsets.start else -1
        return TimestampOffset(-1, self._offsets.start, epoch)

    def latest_offset(self) -> TimestampOffset:
        """Return the log end offset and the latest epoch (ListOffsets -1, before the high watermark bounds it)."""
        return TimestampOffset(-1, self._offsets.end, self._epochs.latest_epoch)

    def missing_for_time(self, timestamp: int) -> Callable[[], None] | None:
        """Return what a worker must read before a search for `timestamp` can do without the disk; None if nothing.

        The search is `time_search`, for the largest timestamp if `timestamp` is negative. It is one step: call
        this again afterwards. Errors are left for the search to report.
        """
        try:
            if timestamp < 0:
                segment = max(self._segments.all, key=Segment.largest_timestamp)
                return cold_reads.missing_for_time(segment, segment.largest_timestamp(), segment.base_offset)
            for segment in self._segments.all:
                if segment.retention_timestamp() >= timestamp:
                    return cold_reads.missing_for_time(segment, timestamp, self._offsets.start)
        except (OSError, CorruptIndexError, RecordsError):
            pass
        return None

    def time_search(self, timestamp: int) -> Iterator[Candidate]:
        """Yield batches, the first result of which is the first record at or after `timestamp` (in ms).

        For `MAX_TIMESTAMP` it is the first record with the log's largest timestamp (ListOffsets -3). As in Kafka that
        may lie before the log start offset: DeleteRecords leaves the batch until its segment is deleted. The log may
        change between two batches.

        Raises:
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        for segment, time, start in self._of_time(timestamp):
            with self._reading():
                yield from candidates(segment, time, start, self._directory.label)

    def _of_time(self, timestamp: int) -> Iterator[tuple[Segment, int, int]]:
        """Yield the segments to search, each with a timestamp and an offset that the record is not before."""
        if timestamp == MAX_TIMESTAMP:
            segment = max(self._segments.all, key=Segment.largest_timestamp)
            if (largest := segment.largest_timestamp()) >= 0:
                yield segment, largest, segment.base_offset
            return
        for segment in self._segments.all:
            if segment.retention_timestamp() >= timestamp:
                yield segment, timestamp, self._offsets.start

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except RecordsError as error:
            raise CorruptMessageError(f"{self._directory.label}: {error}") from error
        except OSError as error:
            raise KafkaStorageError(f"Cannot read {self._directory.label}: {error}") from error

    def legacy_offsets_before(self, timestamp: int, max_count: int, now_ms: int) -> list[int]:
        """Return base offsets of segments last changed at or before `timestamp`, newest first (ListOffsets v0)."""
        rows = [
            (
                max(segment.base_offset, self._offsets.start),
                os.stat(segment.path(names.LOG)).st_mtime_ns // 1_000_000,
            )
            for segment in self._segments.all
        ]
        if self._segments.active.size:
            rows.append((self._offsets.end, now_ms))
        if timestamp == -1:
            last = len(rows) - 1
        elif timestamp == -2:
            last = 0
        else:
            last = max((i for i, (_, changed) in enumerate(rows) if changed <= timestamp), default=-1)
        return sorted((offset for offset, _ in rows[max(last + 1 - max_count, 0) : last + 1]), reverse=True)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return `(epoch found, end offset)` of the largest epoch up to `epoch`; `(-1, -1)` when unknown."""
        return self._epochs.end_offset_for(epoch, self._offsets.end)

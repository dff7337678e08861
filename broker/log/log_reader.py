"""Reading a partition's log: slices by offset, offsets by time and epoch, aborted transactions."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable

from broker.log import cold
from broker.log.config import MAX_LONG
from broker.log.index_file import CorruptIndexError
from broker.log.log_state import LogState
from broker.log.recovery import rebuild_transaction_index
from broker.log.segment import UNKNOWN_TIMESTAMP, Segment
from broker.log.segment_file import FileSlice, ReadResult
from broker.log.time_search import TimestampOffset, find_in_segment
from broker.log.transaction_index import AbortedTransaction, TransactionIndex
from kafkalog.protocol.errors import CorruptMessageError, KafkaStorageError, OffsetOutOfRangeError
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names

logger = logging.getLogger(__name__)


class LogReader(LogState):
    """What a log answers; changes nothing."""

    __slots__ = ()

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

    def is_in_older_segment(self, offset: int, end: int) -> bool:
        """Whether ``offset`` lies in an older segment than ``end``, up to which one may read."""
        if offset >= self._active.base_offset or offset >= end:
            return False
        return bisect_right(self._bases, offset) < bisect_right(self._bases, end)

    def missing(self, offset: int, max_bytes: int) -> Callable[[], None] | None:
        """What a worker has to read in before ``read`` gets by without the disk; None when nothing is missing.

        One step of it: ask again afterwards. A failure is for ``read`` to tell.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        segment = self._active
        if offset < segment.base_offset:
            segment = self._segments[max(bisect_right(self._bases, offset) - 1, 0)]
        try:
            return cold.missing(segment, offset, max_bytes)
        except (OSError, CorruptIndexError, RecordsError):
            return None

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
        """Aborted transactions that touch offsets [start, end), for a reader of committed records.

        An index that cannot be right is rebuilt from the log.

        Raises:
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        found: list[AbortedTransaction] = []
        for segment in self._segments[max(bisect_right(self._bases, start) - 1, 0) :]:
            try:
                rows, complete = segment.aborted_transactions(start, end)
            except CorruptIndexError as error:
                logger.warning("Rebuilding the transaction index of %s: %s", segment, error)
                rows, complete = self._rebuilt_transactions(segment).collect(start, end)
            except OSError as error:
                raise KafkaStorageError(f"Cannot read {self._label}: {error}") from error
            found += rows
            if complete:
                break
        return found

    def aborted_within(self, start: int, result: ReadResult, max_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch what ``read(start, ..., max_offset=max_offset)`` returned.

        The index tells where the slices end without reading them, so a few that begin after them may be among these.

        Raises:
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        if not result.slices:
            return []
        last = result.slices[-1]
        for i in range(max(bisect_right(self._bases, start) - 1, 0), len(self._segments)):
            segment = self._segments[i]
            if segment.file is last.file:
                following = segment.offset_index.lookup_position_after(last.position + last.length)
                if following is None and i + 1 < len(self._bases):
                    following = self._bases[i + 1]
                if following is not None:
                    max_offset = min(max_offset, following)
                break
        return self.aborted_transactions(start, max_offset)

    def _rebuilt_transactions(self, segment: Segment) -> TransactionIndex:
        try:
            rebuild_transaction_index(self._segments, segment, self._ops)
        except RecordsError as error:
            raise CorruptMessageError(f"{self._label}: {error}") from error
        except OSError as error:
            raise KafkaStorageError(f"Cannot read {self._label}: {error}") from error
        return segment.transaction_index

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

    def segments_of_unknown_time(self) -> list[Segment]:
        """Segments whose largest timestamp has not been read yet: `cold.read_largest_timestamp` does it."""
        return [segment for segment in self._segments if segment.max_timestamp == UNKNOWN_TIMESTAMP]

    def missing_for_time(self, timestamp: int) -> Callable[[], None] | None:
        """What a worker has to read in before ``offset_for_timestamp`` gets by without the disk, or, below zero,
        ``max_timestamp_offset``; None when nothing is missing.

        One step of it: ask again afterwards. A failure is for the search to tell.
        """
        try:
            if timestamp < 0:
                segment = max(self._segments, key=Segment.largest_timestamp)
                return cold.missing_for_time(segment, segment.largest_timestamp(), segment.base_offset)
            for segment in self._segments:
                if segment.retention_timestamp() >= timestamp:
                    return cold.missing_for_time(segment, timestamp, self.log_start_offset)
        except (OSError, CorruptIndexError, RecordsError):
            pass
        return None

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of the log's segments (ListOffsets -3); None when no record
        has one.

        As in Kafka it may lie before the log start offset: DeleteRecords leaves the batch until its segment goes.
        """
        segments = self._segments
        segment = max(segments, key=Segment.largest_timestamp)
        largest = segment.largest_timestamp()
        return None if largest < 0 else self._timestamp_search(segment, largest, segment.base_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after ``timestamp``; None when there is none.

        Raises:
            CorruptMessageError: the log does not read as batches there.
            KafkaStorageError: the disk failed.
        """
        for segment in self._segments:
            if segment.retention_timestamp() >= timestamp:
                found = self._timestamp_search(segment, timestamp, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def _timestamp_search(self, segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
        try:
            return find_in_segment(segment, timestamp, start_offset)
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

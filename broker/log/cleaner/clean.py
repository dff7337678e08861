"""Cleaning one log, on a worker's thread.

First the keys of the dirty part are put into the offset map, as many as it holds. Then the segments from the log's
first on are written anew, group by group, without the records that the map shows to be obsolete. Segments are only
read: the callback `swap` replaces them on the event loop's thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from broker.log.cleaner.cleaned_transactions import CleanedTransactions
from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.grouping import SegmentSize, group
from broker.log.cleaner.job import CleaningAbortedError, CleaningJob, CleaningStats
from broker.log.cleaner.replacement import Replacement
from broker.log.cleaner.throttle import Throttle
from broker.log.producer_state.control_batches import parse_marker
from broker.log.resources import LogResources
from broker.log.segment.segment import Segment
from broker.log.segment.splitting import Part, parts_of, write_parts
from kafkalog.records import cleaning
from kafkalog.records.any_format import read_any_header, verify_any_crc
from kafkalog.records.batch import MAGIC, MAGIC_AT, BatchHeader, Record, verify_crc
from kafkalog.records.errors import CorruptRecordError
from kafkalog.records.legacy.message_set import codec_of, decode_entry, encode_message_set, read_entry
from kafkalog.storage import names
from kafkalog.storage.batch_walk import stated_size
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET

Swap = Callable[[Sequence[Segment], Sequence[Segment]], None]
"""Replaces segments (the second ones) by new ones (the first).

It raises CleaningAbortedError or KafkaStorageError if that is not possible.
"""


STOP = -1
"""Returned when the rest of a segment is not needed."""


class DedupeBufferTooSmallError(Exception):
    """The map cannot hold the keys of a single batch, so no cleaning can make progress."""


class LogCleaning:
    """Clean one log once.

    Raises (from `run`):
        CleaningAbortedError: the job's `check` ended the cleaning, or a segment had to be split first.
        KafkaStorageError: the log went offline.
        RecordsError: a segment does not read as batches, or a checksum is wrong.
        OSError: the disk failed.
        DedupeBufferTooSmallError: `log.cleaner.dedupe.buffer.size` is too small for one batch.
    """

    def __init__(
        self,
        job: CleaningJob,
        config: CleanerConfig,
        throttle: Throttle,
        swap: Swap,
        *,
        resources: LogResources | None = None,
        sleep: Callable[[float], Any],
        functions: cleaning.Functions | None = None,
    ) -> None:
        self.job = job
        self.stats = CleaningStats()
        self._config = config
        self._throttle = throttle
        self._swap = swap
        self._resources = resources or LogResources()
        self._sleep = sleep
        self._functions = functions
        self._buffer = bytearray(config.buffer_bytes)
        self._old_horizon = 0

    def run(self) -> int:
        """Clean the log; return the offset up to which it is clean."""
        started = self._resources.seconds()
        job, stats = self.job, self.stats
        self._split_segments()
        # Read this now: afterwards the segment may have been replaced, and its file may be gone.
        clean = [segment for segment in job.segments if segment.base_offset < job.first_dirty_offset]
        self._old_horizon = _modified_ms(clean[-1]) - job.config.delete_retention_ms if clean else 0
        offsets = self._build_map()
        stats.index_seconds = self._resources.seconds() - started
        stats.buffer_utilization = offsets.utilization
        end = offsets.latest_offset + 1
        self._clean_segments(offsets, end)
        stats.seconds = self._resources.seconds() - started
        stats.segments_before = len(job.segments)
        return end

    def _split_segments(self) -> None:
        """Split the segments whose offsets their indexes cannot hold; then end this cleaning, as Apache Kafka does.

        Raises:
            CleaningAbortedError: a segment was split.
        """
        job = self.job
        split: list[str] = []
        for segment, end in zip(job.segments, job.ends, strict=True):
            # Most segments cannot be of the kind, because the next one begins near by.
            if end - 1 - segment.base_offset > MAX_RELATIVE_OFFSET:
                job.check()
                parts = parts_of(segment)
                if len(parts) > 1:
                    split.append(names.segment_name(segment.base_offset, names.LOG))
                    self._split(segment, end, parts)
        if split:
            raise CleaningAbortedError(f"the offsets in {', '.join(split)} span too much; its segments were split")

    def _split(self, segment: Segment, end: int, parts: Sequence[Part]) -> None:
        job, base = self.job, segment.base_offset
        rows = [row for row in job.aborted(base, end) if base <= row.last_offset < end]
        new = write_parts(segment, parts, rows, job.config, job.now_ms, self._resources, self._wait)
        try:
            job.check()
            self._swap(new, [segment])
        except CleaningAbortedError:
            for each in new:
                each.discard()
            raise

    # -- the map ---------------------------------------------------------------------------------------------

    def _build_map(self) -> cleaning.OffsetMap:
        job, config = self.job, self._config
        start = job.first_dirty_offset
        offsets = cleaning.OffsetMap(
            config.map_bytes, config.load_factor, most_keys=job.first_uncleanable_offset - start, start_offset=start,
            functions=self._functions,
        )  # fmt: skip
        offsets.latest_offset = start - 1
        transactions = CleanedTransactions()
        transactions.add_aborted(job.aborted(start, job.first_uncleanable_offset))
        for segment, end in zip(job.segments, job.ends, strict=True):
            if end <= start:
                continue
            builder = _MapBuilder(self, offsets, transactions)
            self._walk(segment, job.first_dirty_position if segment.base_offset < start else 0, builder.take)
            if builder.full:
                break
            # Offsets whose records earlier cleanings have removed count as seen.
            offsets.latest_offset = max(offsets.latest_offset, end - 1)
        if offsets.latest_offset < start:
            raise DedupeBufferTooSmallError(
                f"{job.name}: not even the first batch's keys fit the offset map of {config.map_bytes} bytes: increase "
                "log.cleaner.dedupe.buffer.size"
            )
        self.stats.map_records_read = offsets.indexed_records
        return offsets

    # -- the segments ----------------------------------------------------------------------------------------

    def _clean_segments(self, offsets: cleaning.OffsetMap, end: int) -> None:
        job = self.job
        count = sum(segment.base_offset < end for segment in job.segments)
        sizes = [_size_of(segment) for segment in job.segments[:count]]
        transactions = CleanedTransactions()
        for members in group(
            sizes,
            max_log_bytes=job.config.segment_bytes,
            max_index_bytes=job.config.segment_index_bytes,
            first_uncleanable_offset=job.first_uncleanable_offset,
        ):
            self._clean_group(members, offsets, transactions)
            self.stats.segments_after += 1

    def _clean_group(self, members: range, offsets: cleaning.OffsetMap, transactions: CleanedTransactions) -> None:
        job, stats = self.job, self.stats
        segments = [job.segments[at] for at in members]
        batches = cleaning.BatchFilter(
            offsets,
            now_ms=job.now_ms,
            delete_retention_ms=job.config.delete_retention_ms,
            last_offsets={
                producer_id: last.last_offset
                for producer_id, last in job.producers.items()
                if last.last_offset is not None
            },
            index_interval=job.config.index_interval_bytes,
            out_size=self._config.buffer_bytes,
        )
        swapping = False
        job.check()
        modified = os.stat(segments[-1].path(names.LOG)).st_mtime_ns
        replacement = Replacement(
            job.directory, segments[0].base_offset, job.config, job.now_ms, batches, self._resources
        )
        try:
            for at in members:
                transactions.add_aborted(job.aborted(job.segments[at].base_offset, job.ends[at]))
                writer = _SegmentFilter(self, batches, replacement, transactions, job.segments[at])
                self._walk(job.segments[at], 0, writer.take)
            segment = replacement.finish(modified)
            stats.bytes_written += segment.size
            stats.records_read += batches.records_read
            stats.records_written += batches.records_kept
            stats.records_without_key += batches.records_without_key
            job.check()
            swapping = True
            self._swap([segment], segments)
        except BaseException as error:
            # After a failure during the swap, the next opening of the log completes the renames.
            if not swapping or isinstance(error, CleaningAbortedError):
                replacement.discard()
            raise

    def old_tombstones_stay(self, segment: Segment) -> bool:
        """Return whether tombstones of message formats v0 and v1 stay in `segment`."""
        return _modified_ms(segment) > self._old_horizon

    # -- reading ---------------------------------------------------------------------------------------------

    def _walk(self, segment: Segment, position: int, take: Callable[[memoryview, bool], int]) -> None:
        """Pass the segment's batches from `position` on to `take`, one buffer at a time.

        `take(data, whole)` returns how many bytes of whole batches it has processed, or STOP. `whole` says that the
        segment ends with `data`.
        """
        file, end = segment.file, segment.size
        while position < end:
            self.job.check()
            view = memoryview(self._buffer)[: end - position]
            have = os.preadv(file.fd, [view], position)
            data = view[:have]
            self._wait(have)
            done = take(data, position + have >= end)
            if done == STOP:
                break
            if done == 0:
                self._grow(segment, position, data)
            position += done
        if len(self._buffer) > self._config.buffer_bytes:
            self._buffer = bytearray(self._config.buffer_bytes)

    def _grow(self, segment: Segment, position: int, data: memoryview) -> None:
        """Enlarge the buffer for a batch that is larger, if the segment can hold such a batch."""
        size = stated_size(data)
        if size <= len(self._buffer) or position + size > segment.size:
            raise CorruptRecordError(f"{segment.path(names.LOG)}: no whole batch at position {position}")
        self._buffer = bytearray(size)

    def _wait(self, size: int) -> None:
        delay = self._throttle.delay(size)
        while delay > 0:
            # Wait in small steps, because the broker may have to stop.
            self.job.check()
            self._sleep(min(delay, 0.2))
            delay -= 0.2


def _modified_ms(segment: Segment) -> int:
    return os.stat(segment.path(names.LOG)).st_mtime_ns // 1_000_000


def _size_of(segment: Segment) -> SegmentSize:
    def size(kind: str) -> int:
        try:
            return os.stat(segment.path(kind)).st_size
        except FileNotFoundError:
            return 0

    return SegmentSize(segment.base_offset, segment.size, size(names.INDEX), size(names.TIME_INDEX))


def _header_at(data: memoryview, pos: int) -> BatchHeader | None:
    """Return the header of the batch, or message of an older format, at `pos`; None if `data` has only a part."""
    if len(data) - pos <= MAGIC_AT:
        return None
    if stated_size(data[pos:]) > len(data) - pos:
        return None
    return read_any_header(data, pos)


def _aborts(data: memoryview, pos: int, header: BatchHeader) -> bool | None:
    """Return whether a control batch aborts or commits a transaction; None for another kind, and for an empty one."""
    if header.records_count == 0:
        return None
    verify_crc(data, pos, header)
    marker = parse_marker(data[pos : pos + header.size])
    return None if marker is None else marker.aborted


class _MapBuilder:
    """Put a segment's keys into the map."""

    def __init__(self, owner: LogCleaning, offsets: cleaning.OffsetMap, transactions: CleanedTransactions) -> None:
        self.full = False
        self._owner = owner
        self._offsets = offsets
        self._transactions = transactions

    def take(self, data: memoryview, whole: bool) -> int:
        pos = 0
        while not self.full:
            status, pos = self._offsets.index(data, pos, len(data))
            if status == cleaning.FULL:
                self.full = True
                break
            if pos == len(data) or (status == cleaning.DONE and not whole):
                break
            header = _header_at(data, pos)
            if header is None:
                break
            self.full = not self._special(data, pos, header)
            if not self.full:
                pos += header.size
        self._owner.stats.map_bytes_read += pos
        return STOP if self.full else pos

    def _special(self, data: memoryview, pos: int, header: BatchHeader) -> bool:
        """Take one batch that the compiled kernel does not handle; return whether its keys fitted."""
        offsets, transactions = self._offsets, self._transactions
        if header.magic < MAGIC:
            if not offsets.add_records(decode_entry(data, pos, header)):
                return False
        elif header.is_control:
            transactions.on_marker(header, _aborts(data, pos, header))
            offsets.skip(1)
        elif transactions.on_batch(header):
            offsets.skip(header.records_count)
        elif not offsets.index_batch(data, pos, header):
            return False
        if header.last_offset >= self._owner.job.first_dirty_offset:
            offsets.latest_offset = header.last_offset
        return True


class _SegmentFilter:
    """Write what stays of a segment to the replacement."""

    def __init__(
        self,
        owner: LogCleaning,
        batches: cleaning.BatchFilter,
        replacement: Replacement,
        transactions: CleanedTransactions,
        segment: Segment,
    ) -> None:
        self._owner = owner
        self._batches = batches
        self._replacement = replacement
        self._transactions = transactions
        self._old_tombstones_stay = owner.old_tombstones_stay(segment)

    def take(self, data: memoryview, whole: bool) -> int:
        batches, replacement = self._batches, self._replacement
        pos = 0
        while True:
            replacement.before_filter()
            status, pos = batches.filter(data, pos, len(data))
            if status == cleaning.FULL:
                self._owner._wait(batches.used)
                if not replacement.take_output():
                    batches.grow(data, pos)
                continue
            if pos == len(data) or (status == cleaning.DONE and not whole):
                break
            header = _header_at(data, pos)
            if header is None:
                break
            written = self._old_format(data, pos, header) if header.magic < MAGIC else self._special(data, pos, header)
            if written is not None:
                self._owner._wait(replacement.add(written))
            replacement.add_aborted(self._transactions.kept)
            self._transactions.kept.clear()
            pos += header.size
        self._owner.stats.bytes_read += pos
        return pos

    def _special(self, data: memoryview, pos: int, header: BatchHeader) -> cleaning.Written | None:
        last = self._owner.job.producers.get(header.producer_id) if header.has_producer_id else None
        keep_header = last is not None and (
            header.last_offset == last.last_offset
            if last.last_offset is not None
            else header.is_control and header.producer_epoch == last.epoch
        )
        if not header.is_control:
            discard = self._transactions.on_batch(header)
            return self._batches.filter_batch(data, pos, header, discard=discard, keep_header=keep_header)
        may_go = self._transactions.on_marker(header, _aborts(data, pos, header))
        horizon = header.delete_horizon
        return self._batches.filter_batch(
            data,
            pos,
            header,
            discard=may_go and horizon is not None and horizon <= self._owner.job.now_ms,
            keep_all=True,
            set_horizon=may_go,
            keep_header=keep_header,
        )

    def _old_format(self, data: memoryview, pos: int, header: BatchHeader) -> cleaning.Written | None:
        """Filter a message of v0 or v1, compressed or not, which keeps its format.

        Tombstones of these formats have no delete horizon. As in Kafka, they are removed `delete.retention.ms` after
        the last change of the segment before the dirty part.
        """
        verify_any_crc(data, pos, header)
        records = decode_entry(data, pos, header)
        kept = self._batches.filter_records(records, tombstones_stay=self._old_tombstones_stay)
        if not kept:
            return None
        if len(kept) == len(records):
            return cleaning.Written(data[pos : pos + header.size], header)
        return _encode_old(kept, header)


def _encode_old(records: Sequence[Record], header: BatchHeader) -> cleaning.Written:
    append_time = header.max_timestamp if header.is_log_append_time else None
    entry = encode_message_set(records, magic=header.magic, codec=codec_of(header), log_append_time=append_time)
    return cleaning.Written(entry, read_entry(entry))

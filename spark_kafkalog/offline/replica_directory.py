"""Examines one replica's directory when a query is planned: its segments, where it begins and ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from kafkalog.client.types import TopicPartition
from kafkalog.records.any_format import decode_any
from kafkalog.records.batch import HEADER_SIZE, BatchHeader
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE
from kafkalog.storage import names as file_names
from kafkalog.storage import snapshots as producer_snapshots
from kafkalog.storage.checkpoints import parse_epochs
from kafkalog.storage.index_arrays import NO_ENTRIES, OffsetEntries, usable_offset_entries, usable_time_entries
from kafkalog.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.storage.listing import Listing, SegmentName, listing, snapshots, swapped
from spark_kafkalog.fs.interface import Entry, File, FileSystem
from spark_kafkalog.offline import aborted_transactions
from spark_kafkalog.offline.segment import Batches, after_damage
from spark_kafkalog.offline.segment_pieces import Check, Segment, floor

logger = logging.getLogger(__name__)

_INT64_MAX = (1 << 63) - 1
_INDEX_BLOCK = 64 * 1024
_INDEX_TRIES = 16
_LISTINGS = 5
_SMALL_FILE = 64 << 20
"""Larger checkpoints, snapshots and other indexes count as damaged; of offset indexes no more than this is used."""


@dataclass(frozen=True)
class PartitionLog:
    """A replica's log: records of offsets [start, end)."""

    tp: TopicPartition
    directory: str
    epoch: int
    """The latest leader epoch in the log, -1 for none."""
    start: int
    end: int
    segments: tuple[Segment, ...]
    names: tuple[str, ...]
    """All files of the directory."""


def inspect(fs: FileSystem, tp: TopicPartition, directory: str, log_start: int) -> PartitionLog:
    """Find the segments and the end of the last one. `log_start` is the checkpoint's, 0 without one.

    A torn end is logged.

    Raises:
        OSError: The directory cannot be listed, or a file cannot be read.
    """
    files, found = _listed(fs, directory)
    names = _in_place(fs, directory, files, found) if found.swaps else found.segments
    if not names:
        return PartitionLog(tp, directory, -1, log_start, log_start, (), tuple(files))
    entries = [files[name.file(file_names.LOG)] for name in names]
    tail = max((at for at, entry in enumerate(entries) if entry.size), default=-1)
    end, size, epoch = names[-1].base, 0, -1
    if tail >= 0:
        end, size, epoch = _end(fs, entries[tail], names[tail], files)
        if size == entries[tail].size:
            end = max(end, names[-1].base)
    segments = tuple(
        Segment(
            path=entry.path,
            base=name.base,
            end=names[at + 1].base if at + 1 < len(names) and at != tail else max(end, name.base),
            size=size if at == tail else entry.size,
            file_size=entry.size,
            modified=entry.modified,
            is_tail=at == tail,
        )
        for at, (name, entry) in enumerate(zip(names, entries, strict=True))
    )
    start = min(max(log_start, names[0].base), end)
    return PartitionLog(tp, directory, max(epoch, _known_epoch(fs, files)), start, end, segments, tuple(files))


def load_index(fs: FileSystem, segment: Segment) -> OffsetEntries:
    """Load the offset index beside a segment; no entries if it is missing or invalid."""
    path = _beside(segment.path, file_names.INDEX)
    try:
        with closing(fs.open(path)) as file:
            return usable_offset_entries(_filled(file), segment.base, segment.file_size)
    except FileNotFoundError:
        return NO_ENTRIES


@contextmanager
def opened(fs: FileSystem, segment: Segment) -> Iterator[Batches]:
    """Open the segment's batches for the duration of the context."""
    with closing(fs.open(segment.path)) as file:
        yield Batches(file, segment.path, segment.size)


def checker(batches: Batches, base: int) -> Check:
    """Return the function with which planning checks for a batch at a position."""

    def check(position: int, most: int) -> int | None:
        header = batches.is_batch(position, base, most + 1)
        return None if header is None else header.base_offset

    return check


# ---------------------------------------------------------------------------------------------- listing


def _listed(fs: FileSystem, directory: str) -> tuple[dict[str, Entry], Listing]:
    """List a directory's files. While compaction moves some, repeat until two listings agree, to miss none of them."""
    files = {entry.name: entry for entry in fs.entries(directory) if not entry.is_directory}
    found = listing(files)
    for _ in range(_LISTINGS):
        if not found.in_motion:
            break
        before = found
        files = {entry.name: entry for entry in fs.entries(directory) if not entry.is_directory}
        found = listing(files)
        if found == before:
            break
    return files, found


def _in_place(fs: FileSystem, directory: str, files: dict[str, Entry], found: Listing) -> tuple[SegmentName, ...]:
    last = found.swaps[-1]
    end, _, _ = _end(fs, files[last.file(file_names.LOG)], last, files)
    logger.info("%s: compacted segments are read that wait to be moved into place (.swap)", directory)
    return swapped(found.segments, found.swaps, end)


def _known_epoch(fs: FileSystem, files: dict[str, Entry]) -> int:
    entry = files.get(file_names.LEADER_EPOCH_CHECKPOINT)
    if entry is None:
        return -1
    try:
        epochs = parse_epochs(read_small(fs, entry.path))
    except (FileNotFoundError, ValueError) as error:
        logger.warning("%s is not used: %s", entry.path, error)
        return -1
    return epochs[-1][0] if epochs else -1


def read_small(fs: FileSystem, path: str) -> bytes:
    """Read a whole small file.

    Raises:
        ValueError: The file is too large.
        FileNotFoundError: The file is gone.
    """
    with closing(fs.open(path)) as file:
        if file.size > _SMALL_FILE:
            raise ValueError(f"{file.size} bytes")
        return bytes(file.read(0, file.size))


def _beside(log_path: str, kind: str) -> str:
    """Return the path of another file of the segment: `….log` or `….log.swap` with its kind replaced."""
    stem, _, rest = log_path.rpartition(file_names.LOG)
    return stem + kind + rest


def _filled(file: File) -> bytes:
    """Cut off the zeros that fill up an index while its segment is active."""
    data = bytearray()
    while len(data) < _SMALL_FILE and (block := file.read(len(data), _INDEX_BLOCK)):
        data += block
        if not any(data[-OFFSET_ENTRY.size :]):
            break
    return bytes(data)


# ---------------------------------------------------------------------------------------------- the end


def _end(fs: FileSystem, log: Entry, name: SegmentName, files: dict[str, Entry]) -> tuple[int, int, int]:
    """Return of a last segment: the offset behind its last valid batch, the position there, and that batch's epoch."""
    entries = NO_ENTRIES
    index = files.get(name.file(file_names.INDEX))
    with closing(fs.open(log.path)) as file:
        if index is not None:
            with closing(fs.open(index.path)) as index_file:
                entries = usable_offset_entries(_filled(index_file), name.base, file.size)
        # The size of the listing: what is appended meanwhile is for the next query.
        batches = Batches(file, log.path, log.size)
        at = 0
        for number in range(len(entries.positions) - 1, max(len(entries.positions) - _INDEX_TRIES, 0) - 1, -1):
            position = int(entries.positions[number])
            if batches.is_batch(position, name.base, int(entries.offsets[number]) + 1):
                at = position
                break
        return _walk_to_end(batches, at, name.base)


def _walk_to_end(batches: Batches, at: int, base: int) -> tuple[int, int, int]:
    end, epoch = base, -1
    while at < batches.end:
        why = "the file ends within a batch"
        try:
            header = batches.checked(at)
            if header is not None and header.base_offset < end:
                raise CorruptRecordError(f"offset {header.base_offset} after {end - 1}")
        except CorruptRecordError as error:
            # Valid batches follow, so this is damage, not a torn end. The reader reports it.
            onward = after_damage(batches, at, end, _INT64_MAX, [], batches.end)
            if onward is not None:
                at = onward
                continue
            header, why = None, str(error)
        if header is None:
            # Zeros are room that was made for batches to come (preallocate).
            if batches.end - at < MIN_ENTRY_SIZE or any(batches.bytes_at(at, HEADER_SIZE)):
                logger.warning(
                    "%s: no sound batch in the last %d bytes, from position %d on (%s); the partition ends at offset "
                    "%d, as it would for a broker that starts with this log",
                    batches.path, batches.end - at, at, why, end,
                )  # fmt: skip
            break
        end, epoch = header.next_offset, header.partition_leader_epoch
        at += header.size
    return end, at, epoch


# ---------------------------------------------------------------------------------------------- transactions, times


def last_stable_offset(fs: FileSystem, log: PartitionLog) -> int:
    """Return where read_committed ends: before the first open transaction.

    The batches' headers are read from the newest readable producer snapshot on, or from the start without one.

    Raises:
        CorruptLogError: Damage hides how a transaction ended.
    """
    under_way, since = _snapshot(fs, log)
    scan = aborted_transactions.TransactionScan(under_way)
    damage: tuple[str, int] | None = None
    for batches, at, header in walk(fs, log.segments, since):
        if header is None:
            damage = damage or (batches.path, at)
            continue
        if damage is not None and header.base_offset > since:
            scan.refuse_damage(*damage)
        damage = None
        if header.base_offset >= since:
            scan.see(batches, at, header)
    if damage is not None:
        scan.refuse_damage(*damage)
    return max(min(aborted_transactions.last_stable_offset(scan.under_way, log.end), log.end), log.start)


def _snapshot(fs: FileSystem, log: PartitionLog) -> tuple[dict[int, int], int]:
    for offset in snapshots(log.names):
        if not log.start <= offset <= log.end:
            continue
        path = f"{log.directory.rstrip('/')}/{file_names.segment_name(offset, file_names.SNAPSHOT)}"
        try:
            entries = producer_snapshots.decode(read_small(fs, path))
            return _open_transactions(entries), offset
        except (FileNotFoundError, ValueError) as error:
            logger.warning("%s is not used: %s", path, error)
    return {}, log.start


def _open_transactions(entries: Iterable[producer_snapshots.SnapshotEntry]) -> dict[int, int]:
    """Return the first offsets of the open transactions, by producer id."""
    rows = ((entry.producer_id, entry.transaction_first_offset) for entry in entries)
    return {producer_id: first for producer_id, first in rows if first >= 0}


def walk(fs: FileSystem, segments: Iterable[Segment], since: int, at: int | None = None) -> aborted_transactions.Walk:
    """Yield the batches of segments, from one that begins at or before offset `since` on.

    `at` is a position in the first segment to begin at instead. Checksums of large batches are not verified. Damaged
    stretches are skipped, because the reader of the records reports them; the header is None where one begins.
    """
    for segment in segments:
        if segment.end <= since or segment.size == 0:
            continue
        entries = load_index(fs, segment)
        with opened(fs, segment) as batches:
            if at is None:
                at = floor(entries, since, checker(batches, segment.base)).position
            for position, header in _sound_headers(batches, at, segment, entries):
                yield batches, position, header
        at = None


def _sound_headers(
    batches: Batches, at: int, segment: Segment, entries: OffsetEntries
) -> Iterator[tuple[int, BatchHeader | None]]:
    while at < batches.end:
        for position, header in batches.headers(at):
            at = position + header.size
            yield position, header
        if at >= batches.end:
            return
        yield at, None
        onward = after_damage(batches, at, segment.base, segment.end, entries.positions.tolist(), batches.end)
        if onward is None:
            return
        at = onward


def offset_at(fs: FileSystem, log: PartitionLog, timestamp: int) -> int | None:
    """Return the offset of the first record at or after a time (ms); None if there is none.

    Damaged bytes that may hold that record count as if they did, so that a reader from there gets the report of them.
    """
    damaged: int | None = None
    for segment in log.segments:
        if segment.end <= log.start or segment.size == 0:
            continue
        times, is_whole = _times(fs, segment)
        earlier = [(time, offset) for time, offset in times if time < timestamp]
        if times and earlier == times and is_whole and not segment.is_tail:
            damaged = None
            continue  # a sealed segment's last entry is its largest time
        behind = since = max(earlier[-1][1] if earlier else segment.base, log.start)
        for batches, at, header in walk(fs, [segment], since):
            if header is None:
                damaged = behind if damaged is None else damaged
                continue
            if header.max_timestamp >= timestamp and header.next_offset > log.start and not header.is_control:
                found = _record_at(batches, at, header, timestamp, log.start)
                if found is not None:
                    return found if damaged is None else damaged
            damaged, behind = None, max(header.next_offset, log.start)
    return damaged


def _record_at(batches: Batches, at: int, header: BatchHeader, timestamp: int, start: int) -> int | None:
    """Return the offset of a batch's first record at or after a time and an offset."""
    try:
        _, records = decode_any(batches.bytes_at(at, header.size))
    except RecordsError:
        return max(header.base_offset, start)  # the reader reports the damage
    return next((each.offset for each in records if each.timestamp >= timestamp and each.offset >= start), None)


def _times(fs: FileSystem, segment: Segment) -> tuple[list[tuple[int, int]], bool]:
    """Return the valid entries of the time index, and whether these are all of it."""
    try:
        data = read_small(fs, _beside(segment.path, file_names.TIME_INDEX))
    except (FileNotFoundError, ValueError):
        return [], False
    found = usable_time_entries(data, segment.base)
    return found, len(found) * TIME_ENTRY.size == len(data)

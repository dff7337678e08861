"""Numbers about the content of a partition: from batch headers alone, or from every record, decompressed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.log.tools.targets import PartitionDir
from kafkalog.records import checking
from kafkalog.records.any_format import decode_any
from kafkalog.records.batch import CODEC_MASK, CONTROL_FLAG, MAGIC_AT, TRANSACTIONAL_FLAG, read_header, records_section
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError
from kafkalog.records.kernels.abi import check_layout as c
from kafkalog.records.kernels.abi import table as t
from kafkalog.storage import names
from kafkalog.storage.batch_walk import stated_size

CHUNK_BYTES = 1 << 20
"""Bytes that are read at once: so few that they are still in the processor's cache when they are counted."""
MOST_KEYS = 1_000_000
"""The most keys that are counted at once. Beyond that the rarer half is forgotten."""


@dataclass
class Stats:
    """Hold the numbers of one segment or of several. Sizes are bytes, times ms since the epoch; -1 means none."""

    segments: int = 0
    size: int = 0
    index_size: int = 0
    batches: int = 0
    records: int = 0
    uncounted_batches: int = 0
    """Wrapper messages of v0 and v1, whose records are counted only if every record is read."""
    first_offset: int = -1
    next_offset: int = -1
    min_timestamp: int = -1
    max_timestamp: int = -1
    smallest_batch: int = -1
    largest_batch: int = -1
    codecs: Counter[str] = field(default_factory=Counter)
    """Batches by codec."""
    formats: Counter[str] = field(default_factory=Counter)
    """Batches by message format."""
    producers: set[int] = field(default_factory=set)
    transactional_batches: int = 0
    control_batches: int = 0
    unreadable: list[str] = field(default_factory=list)
    """The places where a segment could not be read, each with the reason."""
    uncompressed_size: int = 0
    counts: checking.Counts = field(default_factory=checking.Counts)
    keys: Counter[bytes] = field(default_factory=Counter)

    def add(self, other: Stats) -> None:
        """Add the numbers of the next segment."""
        for name in ("segments", "size", "index_size", "batches", "records", "uncounted_batches", "uncompressed_size"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.transactional_batches += other.transactional_batches
        self.control_batches += other.control_batches
        self.first_offset = other.first_offset if self.first_offset < 0 else self.first_offset
        self.next_offset = max(self.next_offset, other.next_offset)
        self.min_timestamp = _least(self.min_timestamp, other.min_timestamp)
        self.max_timestamp = max(self.max_timestamp, other.max_timestamp)
        self.smallest_batch = _least(self.smallest_batch, other.smallest_batch)
        self.largest_batch = max(self.largest_batch, other.largest_batch)
        self.codecs += other.codecs
        self.formats += other.formats
        self.producers |= other.producers
        self.unreadable += other.unreadable
        self.counts.add(other.counts)
        self.keys += other.keys
        _forget_rare(self.keys)

    @property
    def density(self) -> float:
        """Records per offset: 1 if nothing was compacted away and no markers were written."""
        span = self.next_offset - self.first_offset
        return self.records / span if span > 0 else 1.0

    def row(self, *, deep: bool, top_keys: int = 0) -> dict[str, Any]:
        """Return the values for JSON."""
        found: dict[str, Any] = {
            "segments": self.segments,
            "bytes": self.size,
            "index_bytes": self.index_size,
            "batches": self.batches,
            "records": self.records,
            "first_offset": self.first_offset,
            "next_offset": self.next_offset,
            "density": round(self.density, 4),
            "min_timestamp": self.min_timestamp,
            "max_timestamp": self.max_timestamp,
            "batch_bytes": {
                "smallest": self.smallest_batch,
                "average": round(self.size / self.batches, 1) if self.batches else 0,
                "largest": self.largest_batch,
            },
            "records_per_batch": round(self.records / self.batches, 1) if self.batches else 0,
            "codecs": dict(self.codecs),
            "formats": dict(self.formats),
            "producers": len(self.producers),
            "transactional_batches": self.transactional_batches,
            "control_batches": self.control_batches,
        }
        if self.uncounted_batches:
            found["batches_of_unknown_records"] = self.uncounted_batches
        if self.unreadable:
            found["unreadable"] = self.unreadable
        if deep:
            found |= self._deep_row()
        if top_keys:
            found["top_keys"] = [
                {"key": key.decode(errors="replace"), "records": n} for key, n in self.keys.most_common(top_keys)
            ]
        return found

    def _deep_row(self) -> dict[str, Any]:
        counts = self.counts
        keys = counts[c.RECORDS] - counts[c.NULL_KEYS]
        values = counts[c.RECORDS] - counts[c.NULL_VALUES]
        return {
            "uncompressed_bytes": self.uncompressed_size,
            "compression_ratio": round(self.uncompressed_size / self.size, 3) if self.size else 1.0,
            "keys": _sizes(keys, counts[c.NULL_KEYS], counts[c.KEY_BYTES], counts[c.LARGEST_KEY]),
            "values": _sizes(values, counts[c.NULL_VALUES], counts[c.VALUE_BYTES], counts[c.LARGEST_VALUE]),
            "headers": {"count": counts[c.HEADERS], "bytes": counts[c.HEADER_BYTES]},
        }


def _sizes(count: int, nulls: int, size: int, largest: int) -> dict[str, Any]:
    average = round(size / count, 1) if count else 0
    return {"count": count, "null": nulls, "bytes": size, "average": average, "largest": largest}


def _least(one: int, other: int) -> int:
    return max(one, other) if one < 0 or other < 0 else min(one, other)


def _forget_rare(keys: Counter[bytes]) -> None:
    if len(keys) > MOST_KEYS:
        kept = keys.most_common(MOST_KEYS // 2)
        keys.clear()
        keys.update(dict(kept))


def segment_stats(
    partition: PartitionDir,
    base: int,
    *,
    deep: bool = False,
    count_keys: bool = False,
    progress: Callable[[int], None] = lambda size: None,
) -> Stats:
    """Count the content of one segment; `deep` reads every record, `count_keys` counts the records of each key.

    Counting ends at the first bytes that are no batch, and notes them.

    Raises:
        OSError: the segment cannot be read.
    """
    path = partition.file(base, names.LOG)
    stats = Stats(segments=1, next_offset=base)
    for kind in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
        if names.segment_name(base, kind) in partition.files:
            stats.index_size += os.stat(partition.file(base, kind)).st_blocks * 512
    for view, position, table in _tables(path, stats, progress):
        _take(stats, view, table)
        if not deep:
            continue
        control = table[:, t.ATTRIBUTES] & CONTROL_FLAG != 0
        for row, error in checking.check(view, table[~control], stats.counts):
            at = int(table[~control][row, t.POSITION])
            stats.unreadable.append(f"{path}, position {position + at}: {error}")
            table[table[:, t.POSITION] == at, t.COUNT] = 0
        _take_sizes(stats, view, table)
        if count_keys:
            _take_keys(stats, view, table)
    if deep:
        # The records of wrapper messages were counted, too.
        stats.uncounted_batches = 0
        stats.records = stats.counts[c.RECORDS]
    return stats


def _tables(path: str, stats: Stats, progress: Callable[[int], None]) -> Iterator[tuple[memoryview, int, Any]]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        stats.size = end = os.fstat(fd).st_size
        position = 0
        size = CHUNK_BYTES
        while position < end:
            view = memoryview(os.pread(fd, min(size, end - position), position))
            scan = checking.scan(view, 0, stats.next_offset)
            if len(scan.table):
                yield view, position, scan.table
                stats.next_offset = scan.next_offset
                position += scan.position
                progress(scan.position)
                continue
            whole = stated_size(view)
            if scan.error is None and len(view) < whole <= end - position:
                size = whole
                continue
            if any(view[:4096]):
                stats.unreadable.append(f"{path}, position {position}: {scan.error or 'the last batch is cut off'}")
            progress(end - position)
            return
    finally:
        os.close(fd)


def _take(stats: Stats, view: memoryview, table: Any) -> None:
    stats.batches += len(table)
    if stats.first_offset < 0:
        stats.first_offset = int(table[0, t.BASE_OFFSET])
    counts = table[:, t.COUNT]
    control = table[:, t.ATTRIBUTES] & CONTROL_FLAG != 0
    stats.records += int(counts[(counts > 0) & ~control].sum())
    stats.uncounted_batches += int((counts < 0).sum())
    sizes = table[:, t.SIZE]
    stats.smallest_batch = _least(stats.smallest_batch, int(sizes.min()))
    stats.largest_batch = max(stats.largest_batch, int(sizes.max()))
    for column in (t.BASE_TIMESTAMP, t.MAX_TIMESTAMP):
        known = table[:, column][table[:, column] >= 0]
        if len(known):
            stats.min_timestamp = _least(stats.min_timestamp, int(known.min()))
            stats.max_timestamp = max(stats.max_timestamp, int(known.max()))
    for code, count in zip(*np.unique(table[:, t.ATTRIBUTES] & CODEC_MASK, return_counts=True), strict=True):
        name = Codec(int(code)).name.lower() if code in set(Codec) else f"unknown-{code}"
        stats.codecs[name] += int(count)
    magics = np.frombuffer(view, np.uint8)[table[:, t.POSITION] + MAGIC_AT]
    for magic, count in zip(*np.unique(magics, return_counts=True), strict=True):
        stats.formats[f"v{magic}"] += int(count)
    stats.producers.update(int(each) for each in np.unique(table[:, t.PRODUCER_ID]) if each >= 0)
    stats.control_batches += int(control.sum())
    stats.transactional_batches += int(((table[:, t.ATTRIBUTES] & TRANSACTIONAL_FLAG != 0) & ~control).sum())


def _take_sizes(stats: Stats, view: memoryview, table: Any) -> None:
    plain = table[:, t.ATTRIBUTES] & CODEC_MASK == 0
    stats.uncompressed_size += int(table[plain, t.SIZE].sum())
    for row in table[~plain].tolist():
        position = row[t.POSITION]
        try:
            if view[position + MAGIC_AT] == 2:
                header = read_header(view, position)
                _, start, end = records_section(view, position, header)
                stats.uncompressed_size += row[t.SIZE] - (row[t.END] - row[t.START]) + end - start
            else:
                records = decode_any(view, position, check_crc=False)[1]
                stats.uncompressed_size += sum(34 + len(r.key or b"") + len(r.value or b"") for r in records)
        except RecordsError:
            stats.uncompressed_size += row[t.SIZE]


def _take_keys(stats: Stats, view: memoryview, table: Any) -> None:
    for row in table.tolist():
        if row[t.COUNT] and not row[t.ATTRIBUTES] & CONTROL_FLAG:
            _, records = decode_any(view, row[t.POSITION], check_crc=False)
            stats.keys.update(record.key for record in records if record.key is not None)
    _forget_rare(stats.keys)

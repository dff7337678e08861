"""Log compaction over bytes: which is the latest record of each key, and what is left of a batch.

An `OffsetMap` takes the keys of a part of the log (`index`), within bounded memory; a `BatchFilter` then writes the
batches of the log without the records that a later one of the same key has made superfluous. Rules as of Kafka's
cleaner (`LogCleaner`, `MemoryRecords.filterTo`, KIP-534):

- a record past the map's latest offset stays; of the others, one that has a key, is the key's latest or later, and is
  no tombstone whose time has come;
- offsets never change: a batch keeps its first and last offset, and its sequence numbers, whatever goes from it;
- a batch of which everything stays is copied byte for byte, unless it holds a tombstone for the first time: then it is
  given its delete horizon, the time from which on tombstones may go (attribute bit 6, base timestamp);
- a batch of which nothing stays goes, unless it holds the last sequence number of its producer: of that the header
  stays;
- compressed batches are decompressed, and compressed again under their codec where something went.

Unlike Kafka's, this cleaner verifies checksums: damaged records are never given a right one.

The loops are kernels, compiled or taken from numba's cache by `load`, which a broker calls when there is something to
compact; where that fails, plain Python serves, slowly.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .batch import (
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    MIN_RECORD_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    pack_header,
    read_header,
    records_section,
    verify_crc,
)
from .compression import Codec, compress, decompress_into
from .errors import InvalidRecordError
from .kernels import loader
from .kernels.abi import clean_layout as c
from .kernels.compiled import native
from .kernels.plain import log_cleaning as plain

log = logging.getLogger(__name__)

DONE, SPECIAL, FULL = c.DONE, c.SPECIAL, c.FULL

MOST_SLOTS = (1 << 31) - 1
_SECRET = (
    int.from_bytes(secrets.token_bytes(8), "little", signed=True),
    int.from_bytes(secrets.token_bytes(8), "little", signed=True),
)
_INDEX_ROWS = 4096
ROOM_BYTES = 1 << 20
"""Memory to decompress to, to begin with: enough for batches of the usual sizes, and for what stays of them."""
MOST_ROOM_BYTES = 32 << 20
"""What is kept of it from one batch to the next; a larger batch gets memory of its own."""


class Functions(NamedTuple):
    """The loops, compiled or not, with the arguments of `kernels.compiled.log_cleaning`."""

    index_records: Any
    index_batches: Any
    filter_batches: Any
    filter_section: Any
    write_section: Any
    compiled: bool


PLAIN = Functions(
    plain.index_records,
    plain.index_batches,
    plain.filter_batches,
    plain.filter_section,
    plain.write_section,
    False,
)
_functions: Functions | None = None


def loaded() -> bool:
    """Whether `load` has been called."""
    return _functions is not None


def load() -> Functions:
    """The compiled loops, or, where these cannot be had, the plain ones, which is logged once. Any thread may call."""
    global _functions
    if _functions is None:
        try:
            loader.load_cleaning()
            from .kernels.compiled import log_cleaning as compiled

            _functions = Functions(
                compiled.index_records,
                compiled.index_batches,
                compiled.filter_batches,
                compiled.filter_section,
                compiled.write_section,
                True,
            )
        except Exception:
            log.warning("the kernels of log cleaning could not be compiled; plain Python serves, slowly", exc_info=True)
            _functions = PLAIN
    return _functions


def _input(data: Any, functions: Functions) -> Any:
    """Bytes to be read, as the functions take them: nothing is compiled for arrays that can be written to."""
    view = memoryview(data).toreadonly()
    return np.frombuffer(view, np.uint8) if functions.compiled else view


def _output(data: bytearray, functions: Functions) -> Any:
    return np.frombuffer(data, np.uint8) if functions.compiled else memoryview(data)


class Room:
    """Memory that one batch after another is decompressed to, with as much for what is written of it.

    It stays in the processor's caches that way, and its pages are not asked for anew.
    """

    def __init__(self) -> None:
        # An array has no zeros written to pages that nothing uses.
        self.array = np.empty(ROOM_BYTES, np.uint8)
        self._view = self.array.data
        self._rest = np.empty(0, np.uint8)

    def reserve(self, size: int) -> memoryview:
        """Memory of so many bytes."""
        if size > len(self.array):
            memory = np.empty(size, np.uint8)
            if size > MOST_ROOM_BYTES:
                return memory.data
            self.array, self._view = memory, memory.data
        return self._view[:size]

    def expect(self, size: int, count: int) -> None:
        """Be large enough for the kernels to do a batch of so many bytes and records, unless that is too large."""
        needed = 2 * (size + c.SLACK) + c.GROWTH * count
        if len(self.array) < needed <= MOST_ROOM_BYTES:
            # More than this one needs, since the next one may be a little larger.
            self.reserve(min(needed + needed // 4, MOST_ROOM_BYTES))

    def rest(self, size: int) -> Any:
        """Other memory, of at least so many bytes."""
        if size > len(self._rest):
            memory = np.empty(max(size, ROOM_BYTES), np.uint8)
            if size > MOST_ROOM_BYTES:
                return memory
            self._rest = memory
        return self._rest


class OffsetMap:
    """The latest offset of each key, by the key's hash. 24 bytes a slot, as in Kafka.

    Args:
        memory: bytes it may take, ``log.cleaner.dedupe.buffer.size`` of one thread.
        load_factor: ``log.cleaner.io.buffer.load.factor``, the share of the slots that is used.
        most_keys: how many keys there can be; less memory is taken for few.
        start_offset: records before it are not taken.

    Raises:
        ValueError: not even one key fits.
    """

    def __init__(
        self,
        memory: int,
        load_factor: float,
        *,
        most_keys: int,
        start_offset: int = 0,
        functions: Functions | None = None,
        secret: tuple[int, int] = _SECRET,
    ) -> None:
        self.limit = min(memory // c.CELL_BYTES, MOST_SLOTS)
        """Slots that the memory has room for."""
        wanted = int(max(most_keys, 1) / load_factor) + 2 if load_factor > 0 else self.limit
        slots = min(self.limit, wanted)
        # One stays empty, or a look-up of a key that is not there would not end.
        capacity = min(int(slots * load_factor), slots - 1)
        if capacity < 1:
            raise ValueError(
                "offset map is too small to fit in even a single message, so log cleaning will never make progress. "
                "You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads"
            )
        self.functions = functions or load()
        # Pages that are never written are never taken.
        self.cells = np.zeros(slots * c.CELL, np.int64)
        self.state = np.zeros(c.MAP_STATE, np.int64)
        self.state[:] = [*secret, slots, capacity, 0, -1, start_offset, 0, 0, 0]
        self.room = Room()
        self._crc_function = native.crc32c_address()
        self._lz4_function = native.lz4_address()

    @property
    def entries(self) -> int:
        """Keys in the map."""
        return int(self.state[c.ENTRIES])

    @property
    def utilization(self) -> float:
        """Share of the slots in use, of those that the memory has room for."""
        return self.entries / self.limit

    @property
    def latest_offset(self) -> int:
        """Every record up to it, from the start offset on, is in the map; -1 while nothing is."""
        return int(self.state[c.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.state[c.LATEST_OFFSET] = offset

    @property
    def indexed_records(self) -> int:
        """Records looked at."""
        return int(self.state[c.INDEXED_RECORDS])

    def skip(self, records: int) -> None:
        """Count records of markers and aborted transactions, which need not be looked at."""
        self.state[c.INDEXED_RECORDS] += records

    def get(self, key: bytes) -> int:
        """The latest offset of `key`, or -1."""
        at, _, _ = plain.find_key(self.cells, self.state, key)
        return int(self.cells[at + c.NEXT_OFFSET]) - 1

    def index(self, data: Any, pos: int, end: int) -> tuple[int, int]:
        """Take the keys of the ordinary batches in data[pos:end]: DONE, SPECIAL or FULL, and at which position.

        DONE: no whole batch is left there. SPECIAL: the batch there is for the caller (`index_batch`), or damaged.

        Raises:
            InvalidRecordError: a batch's records do not read as such.
        """
        functions = self.functions
        status, pos = functions.index_batches(
            _input(data, functions), pos, end, self.cells, self.state, self.room.array, self._crc_function,
            self._lz4_function,
        )  # fmt: skip
        if status == c.BAD:
            raise _invalid(data, pos)
        return status, pos

    def index_batch(self, data: Any, pos: int, header: BatchHeader) -> bool:
        """Take the keys of the batch at `pos`, whatever it is; whether they fitted.

        Raises:
            RecordsError: the batch is damaged.
        """
        verify_crc(data, pos, header)
        section, start, end = _section(data, pos, header, self.room)
        functions = self.functions
        status = functions.index_records(
            _input(section, functions), start, end, header.records_count, header.base_offset,
            header.last_offset_delta, self.cells, self.state,
        )  # fmt: skip
        if status == c.BAD:
            raise _invalid(data, pos)
        return bool(status == c.DONE)

    def add_records(self, records: Iterable[Record]) -> bool:
        """Take the keys of records that were decoded; whether they fitted."""
        for record in records:
            key = record.key if record.offset >= self.state[c.START_OFFSET] else None
            if key is not None and not plain.put_key(self.cells, self.state, key, record.offset):
                return False
            self.state[c.INDEXED_RECORDS] += 1
        return True


class Written(NamedTuple):
    """A batch to be written, and what the indexes have to know of it."""

    data: Any
    header: BatchHeader


class BatchFilter:
    """Writes what stays of batches, into `out` for the ordinary ones.

    Args:
        now_ms: the time of the cleaning; delete horizons at or before it have passed.
        delete_retention_ms: how long from now on tombstones stay that are met for the first time.
        last_offsets: by producer id, the offset that ends the batch with its last sequence number.
        index_interval: ``index.interval.bytes``.
        out_size: bytes that are gathered before they are to be written.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        last_offsets: Mapping[int, int],
        index_interval: int,
        out_size: int,
    ) -> None:
        self.offsets = offsets
        self.now_ms = now_ms
        self.delete_retention_ms = delete_retention_ms
        self.out = bytearray(out_size)
        self.state = np.zeros(c.FILTER_STATE, np.int64)
        self.state[c.NOW] = now_ms
        # Times past the end of all numbers would wrap around to before the beginning.
        self.state[c.DELETE_RETENTION] = self._retention = min(delete_retention_ms, (1 << 62) - now_ms)
        self.state[c.INDEX_INTERVAL] = index_interval
        self._owners = np.array([n for pair in sorted(last_offsets.items()) for n in pair], np.int64)
        self._rows = np.zeros((_INDEX_ROWS, c.ROW), np.int64)
        self._flags = np.zeros(0, np.uint8)
        self._crc_function = native.crc32c_address()
        self._lz4_functions = native.lz4_address(), native.lz4_compress_address()

    @property
    def used(self) -> int:
        """Bytes of `out` that are to be written."""
        return int(self.state[c.OUT_USED])

    @property
    def records_read(self) -> int:
        """Records looked at."""
        return int(self.state[c.RECORDS_READ])

    @property
    def records_kept(self) -> int:
        """Records that stay."""
        return int(self.state[c.RECORDS_KEPT])

    @property
    def records_without_key(self) -> int:
        """Records that went because a compacted topic's records must have keys."""
        return int(self.state[c.RECORDS_WITHOUT_KEY])

    def begin(self, position: int, bytes_since_index: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Say what was written so far: where `out` begins in the segment, and its indexes' state."""
        state = self.state
        state[c.OUT_USED] = state[c.INDEX_ROWS] = 0
        state[c.OUT_POSITION] = position
        state[c.BYTES_SINCE_INDEX] = bytes_since_index
        state[c.MAX_TIMESTAMP], state[c.MAX_TIMESTAMP_OFFSET] = max_timestamp, max_timestamp_offset

    def index_state(self) -> tuple[list[tuple[int, int, int, int]], int, int, int]:
        """Rows for the indexes since `begin` (last offset and position of a batch, largest timestamp so far and the
        last offset of its batch), then bytes since the last of them, largest timestamp, last offset of its batch.
        """
        state = self.state
        rows = self._rows[: state[c.INDEX_ROWS]].tolist()
        return (
            [tuple(row) for row in rows],
            int(state[c.BYTES_SINCE_INDEX]),
            int(state[c.MAX_TIMESTAMP]),
            int(state[c.MAX_TIMESTAMP_OFFSET]),
        )

    def filter(self, data: Any, pos: int, end: int) -> tuple[int, int]:
        """Write what stays of the ordinary batches in data[pos:end] to `out`: DONE, SPECIAL or FULL, and where.

        FULL: `out` is to be written out and begun anew; if it is empty, the batch needs a larger one (`grow`).

        Raises:
            InvalidRecordError: a batch's records do not read as such.
        """
        functions = self.offsets.functions
        self._reserve_flags(len(data))
        rows = self._rows
        status, pos = functions.filter_batches(
            _input(data, functions), pos, end, self.offsets.cells, self.offsets.state, self.state, self._owners,
            self._flags, _output(self.out, functions), rows, self.offsets.room.array, self._crc_function,
            *self._lz4_functions,
        )  # fmt: skip
        if status == c.BAD:
            raise _invalid(data, pos)
        return status, pos

    def grow(self, data: Any, pos: int) -> None:
        """Make room in the empty `out` for the batch at `pos`, whatever stays of it."""
        header = read_header(data, pos)
        self.out = bytearray(max(len(self.out), header.size + c.GROWTH * header.records_count))

    def filter_batch(
        self,
        data: Any,
        pos: int,
        header: BatchHeader,
        *,
        discard: bool = False,
        keep_all: bool = False,
        set_horizon: bool = False,
        keep_header: bool = False,
    ) -> Written | None:
        """What stays of the batch at `pos`, whatever it is; None when nothing does.

        Args:
            discard: none of its records stays, as those of an aborted transaction.
            keep_all: all stay, as markers do until their time has come.
            set_horizon: as if it held a tombstone.
            keep_header: should no record stay, the header does.

        Raises:
            RecordsError: the batch is damaged.
        """
        verify_crc(data, pos, header)
        kept = tombstones = 0
        section, start, end = data, 0, 0
        if not discard and header.records_count > 0:
            section, start, end = _section(data, pos, header, self.offsets.room)
            kept, tombstones, most = self._mark(section, start, end, data, pos, header, keep_all)
        if not kept:
            return self._empty(header) if keep_header else None
        new_horizon = (tombstones > 0 or set_horizon) and not header.has_delete_horizon
        if kept == header.records_count and not new_horizon:
            return Written(memoryview(data)[pos : pos + header.size], header)
        new = header._replace(records_count=kept)
        if not header.is_log_append_time:
            new = new._replace(max_timestamp=header.base_timestamp + most)
        shift = 0
        if new_horizon:
            horizon = self.now_ms + self._retention
            shift = header.base_timestamp - horizon
            new = new._replace(base_timestamp=horizon, attributes=header.attributes | DELETE_HORIZON_FLAG)
        room = self.offsets.room.rest(end - start + (c.GROWTH * header.records_count if shift else 0))
        functions = self.offsets.functions
        size = functions.write_section(
            _input(section, functions), start, end, header.records_count, self._flags, shift, room
        )
        batch = pack_header(new, compress(header.codec, room.data[:size]))
        return Written(batch, read_header(batch))

    def filter_records(self, records: Sequence[Record], *, tombstones_stay: bool) -> list[Record]:
        """Those that stay of records that were decoded."""
        latest = self.offsets.latest_offset
        kept = []
        for record in records:
            if record.offset <= latest:
                if record.key is None:
                    self.state[c.RECORDS_WITHOUT_KEY] += 1
                    continue
                if record.offset < self.offsets.get(record.key) or (record.value is None and not tombstones_stay):
                    continue
            kept.append(record)
        self.state[c.RECORDS_READ] += len(records)
        self.state[c.RECORDS_KEPT] += len(kept)
        return kept

    def _mark(
        self, section: Any, start: int, end: int, data: Any, pos: int, header: BatchHeader, keep_all: bool
    ) -> tuple[int, int, int]:
        self._reserve_flags(header.records_count)
        horizon = header.delete_horizon
        functions = self.offsets.functions
        status, kept, tombstones, most = functions.filter_section(
            _input(section, functions), start, end, header.records_count, header.base_offset,
            header.last_offset_delta, c.KEEP_ALL if keep_all else c.BY_MAP,
            int(horizon is None or self.now_ms < horizon), self.offsets.cells, self.offsets.state, self.state,
            self._flags,
        )  # fmt: skip
        if status == c.BAD:
            raise _invalid(data, pos)
        return kept, tombstones, most

    def _empty(self, header: BatchHeader) -> Written:
        attributes = header.attributes & ~(DELETE_HORIZON_FLAG | 0x07) | int(Codec.NONE)
        batch = pack_header(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")
        return Written(batch, read_header(batch))

    def _reserve_flags(self, size: int) -> None:
        if len(self._flags) < size:
            self._flags = np.zeros(size, np.uint8)


def _section(data: Any, pos: int, header: BatchHeader, room: Room) -> tuple[Any, int, int]:
    """The batch's records, uncompressed: where they are, in `room` perhaps, and there."""
    start, end = pos + HEADER_SIZE, pos + header.size
    if header.codec in (Codec.SNAPPY, Codec.ZSTD) and start < end:
        # The others take memory of their own in any case.
        into: list[memoryview] = []

        def reserve(size: int) -> memoryview:
            into.append(room.reserve(size))
            return into[0]

        size = decompress_into(header.codec, memoryview(data)[start:end], reserve)
        section: Any = into[0]
        start, end = 0, size
    else:
        section, start, end = records_section(data, pos, header)
    if header.codec in (Codec.SNAPPY, Codec.LZ4):
        room.expect(end - start, header.records_count)
    if not 0 <= header.records_count * MIN_RECORD_SIZE <= end - start:
        raise InvalidRecordError(f"{header.records_count} records cannot be in {end - start} bytes")
    return section, start, end


def _invalid(data: Any, pos: int) -> InvalidRecordError:
    header = read_header(data, pos)
    return InvalidRecordError(f"the batch at offset {header.base_offset} does not hold the records it states")

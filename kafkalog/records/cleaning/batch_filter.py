"""Rewrite batches without the records that a later one of the same key has made superfluous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kafkalog.records.batch import (
    DELETE_HORIZON_FLAG,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    pack_header,
    read_header,
    verify_crc,
)
from kafkalog.records.cleaning.loops import readable, writable
from kafkalog.records.cleaning.offset_map import OffsetMap
from kafkalog.records.cleaning.room import not_records, uncompressed
from kafkalog.records.compression import Codec, compress
from kafkalog.records.kernels.abi import clean_layout as c
from kafkalog.records.kernels.compiled import native
from kafkalog.records.varint import int64

_INDEX_ROWS = 4096


class Written(NamedTuple):
    """A batch to be written, and its header, which the indexes need."""

    data: Any
    header: BatchHeader


class BatchFilter:
    """Writes the records that stay; those of ordinary batches go to `out`.

    Args:
        now_ms: the time of the cleaning; delete horizons at or before it have passed.
        delete_retention_ms: how long tombstones without a delete horizon stay from now on.
        last_offsets: by producer id, the offset that ends the batch with its last sequence number.
        index_interval: `index.interval.bytes`.
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
        # A time beyond int64 would wrap around and become negative.
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
        """Number of records read."""
        return int(self.state[c.RECORDS_READ])

    @property
    def records_kept(self) -> int:
        """Number of records that stay."""
        return int(self.state[c.RECORDS_KEPT])

    @property
    def records_without_key(self) -> int:
        """Number of records that were dropped because they have no key; in a compacted topic they must have one."""
        return int(self.state[c.RECORDS_WITHOUT_KEY])

    def begin(self, position: int, bytes_since_index: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Begin an empty `out`; record its position in the segment, and the state of the segment's indexes there."""
        state = self.state
        state[c.OUT_USED] = state[c.INDEX_ROWS] = 0
        state[c.OUT_POSITION] = position
        state[c.BYTES_SINCE_INDEX] = bytes_since_index
        state[c.MAX_TIMESTAMP], state[c.MAX_TIMESTAMP_OFFSET] = max_timestamp, max_timestamp_offset

    def index_state(self) -> tuple[list[tuple[int, int, int, int]], int, int, int]:
        """Return the state of the indexes of the segment.

        That is the index rows since `begin`, bytes since the last row, largest timestamp, and last offset of its batch.
        A row is the last offset and position of a batch, the largest timestamp so far, and the last offset of its
        batch.
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
        """Write the records that stay of the ordinary batches in data[pos:end] to `out`.

        Return DONE, SPECIAL or FULL, and the position.
        SPECIAL: the caller must handle the batch there (`filter_batch`), or it is damaged.
        FULL: write `out` to the file and begin it anew; if it is empty, the batch needs a larger one (`grow`).

        Raises:
            InvalidRecordError: A batch's records cannot be parsed.
        """
        functions = self.offsets.functions
        self._reserve_flags(len(data))
        rows = self._rows
        status, pos = functions.filter_batches(
            readable(data, functions), pos, end, self.offsets.cells, self.offsets.state, self.state, self._owners,
            self._flags, writable(self.out, functions), rows, self.offsets.room.array, self._crc_function,
            *self._lz4_functions,
        )  # fmt: skip
        if status == c.BAD:
            raise not_records(data, pos)
        return status, pos

    def grow(self, data: Any, pos: int) -> None:
        """Make room in the empty `out` for the batch at `pos`, even if all of it stays."""
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
        """Return the batch at `pos`, of any kind, with the records that stay; None when none does.

        Args:
            discard: drop all records, as those of an aborted transaction.
            keep_all: keep all records, as markers whose time has not come.
            set_horizon: set the delete horizon as if it held a tombstone.
            keep_header: keep the header even if no record stays.

        Raises:
            RecordsError: The batch is damaged.
        """
        verify_crc(data, pos, header)
        kept = tombstones = 0
        section, start, end = data, 0, 0
        if not discard and header.records_count > 0:
            section, start, end = uncompressed(data, pos, header, self.offsets.room)
            kept, tombstones, most = self._mark(section, start, end, data, pos, header, keep_all)
        if not kept:
            return self._empty(header) if keep_header else None
        new_horizon = (tombstones > 0 or set_horizon) and not header.has_delete_horizon
        if kept == header.records_count and not new_horizon:
            return Written(memoryview(data)[pos : pos + header.size], header)
        new = header._replace(records_count=kept)
        if not header.is_log_append_time:
            new = new._replace(max_timestamp=most)
        shift = 0
        if new_horizon:
            horizon = self.now_ms + self._retention
            shift = int64(header.base_timestamp - horizon)
            new = new._replace(base_timestamp=horizon, attributes=header.attributes | DELETE_HORIZON_FLAG)
        room = self.offsets.room.rest(end - start + (c.GROWTH * header.records_count if shift else 0))
        functions = self.offsets.functions
        size = functions.write_section(
            readable(section, functions), start, end, header.records_count, self._flags, shift, room
        )
        batch = pack_header(new, compress(header.codec, room.data[:size]))
        return Written(batch, read_header(batch))

    def filter_records(self, records: Sequence[Record], *, tombstones_stay: bool) -> list[Record]:
        """Return the decoded records that stay."""
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
            readable(section, functions), start, end, header.records_count, header.base_offset,
            header.base_timestamp, header.last_offset_delta, c.KEEP_ALL if keep_all else c.BY_MAP,
            int(horizon is None or self.now_ms < horizon), self.offsets.cells, self.offsets.state, self.state,
            self._flags,
        )  # fmt: skip
        if status == c.BAD:
            raise not_records(data, pos)
        return kept, tombstones, most

    def _empty(self, header: BatchHeader) -> Written:
        attributes = header.attributes & ~(DELETE_HORIZON_FLAG | 0x07) | int(Codec.NONE)
        batch = pack_header(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")
        return Written(batch, read_header(batch))

    def _reserve_flags(self, size: int) -> None:
        if len(self._flags) < size:
            self._flags = np.zeros(size, np.uint8)

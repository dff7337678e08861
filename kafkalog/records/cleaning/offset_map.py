"""The latest offset of each key, within bounded memory."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from kafkalog.records.batch import BatchHeader, Record, verify_crc
from kafkalog.records.cleaning.loops import Functions, load, readable
from kafkalog.records.cleaning.room import Room, not_records, uncompressed
from kafkalog.records.kernels.abi import clean_layout as c
from kafkalog.records.kernels.compiled import native
from kafkalog.records.kernels.plain import log_cleaning as plain

MOST_SLOTS = (1 << 31) - 1
_SECRET = (
    int.from_bytes(secrets.token_bytes(8), "little", signed=True),
    int.from_bytes(secrets.token_bytes(8), "little", signed=True),
)


class OffsetMap:
    """The latest offset of each key, by the key's hash; 24 bytes a slot, as in Kafka.

    Args:
        memory: bytes it may take, `log.cleaner.dedupe.buffer.size` of one thread.
        load_factor: `log.cleaner.io.buffer.load.factor`, the share of the slots that is used.
        most_keys: the most keys there can be; few keys take less memory.
        start_offset: records before it are ignored.

    Raises:
        ValueError: Not even one key fits.

    Attributes:
        limit: Slots that the memory has room for.
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
        wanted = int(max(most_keys, 1) / load_factor) + 2 if load_factor > 0 else self.limit
        slots = min(self.limit, wanted)
        # One slot stays empty, or the search for a missing key would not end.
        capacity = min(int(slots * load_factor), slots - 1)
        if capacity < 1:
            raise ValueError(
                "offset map is too small to fit in even a single message, so log cleaning will never make progress. "
                "You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads"
            )
        self.functions = functions or load()
        # The system gives no memory for pages that are never written.
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
        """Used slots as a share of the slots that the memory has room for."""
        return self.entries / self.limit

    @property
    def latest_offset(self) -> int:
        """The map has every record from the start offset up to this one; -1 when empty."""
        return int(self.state[c.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.state[c.LATEST_OFFSET] = offset

    @property
    def indexed_records(self) -> int:
        """Number of records read."""
        return int(self.state[c.INDEXED_RECORDS])

    def skip(self, records: int) -> None:
        """Count records of markers and aborted transactions, which are skipped without a look."""
        self.state[c.INDEXED_RECORDS] += records

    def get(self, key: bytes) -> int:
        """Return the latest offset of `key`, or -1."""
        at, _, _ = plain.find_key(self.cells, self.state, key)
        return int(self.cells[at + c.NEXT_OFFSET]) - 1

    def index(self, data: Any, pos: int, end: int) -> tuple[int, int]:
        """Take the keys of the ordinary batches in data[pos:end]; return DONE, SPECIAL or FULL, and the position.

        DONE: no whole batch is left. SPECIAL: the caller must handle the batch there (`index_batch`), or it is damaged.

        Raises:
            InvalidRecordError: A batch's records cannot be parsed.
        """
        functions = self.functions
        status, pos = functions.index_batches(
            readable(data, functions), pos, end, self.cells, self.state, self.room.array, self._crc_function,
            self._lz4_function,
        )  # fmt: skip
        if status == c.BAD:
            raise not_records(data, pos)
        return status, pos

    def index_batch(self, data: Any, pos: int, header: BatchHeader) -> bool:
        """Take the keys of the batch at `pos`, of any kind; return whether they fitted.

        Raises:
            RecordsError: The batch is damaged.
        """
        verify_crc(data, pos, header)
        section, start, end = uncompressed(data, pos, header, self.room)
        functions = self.functions
        status = functions.index_records(
            readable(section, functions), start, end, header.records_count, header.base_offset,
            header.last_offset_delta, self.cells, self.state,
        )  # fmt: skip
        if status == c.BAD:
            raise not_records(data, pos)
        return bool(status == c.DONE)

    def add_records(self, records: Iterable[Record]) -> bool:
        """Take the keys of decoded records; return whether they fitted."""
        for record in records:
            key = record.key if record.offset >= self.state[c.START_OFFSET] else None
            if key is not None and not plain.put_key(self.cells, self.state, key, record.offset):
                return False
            self.state[c.INDEXED_RECORDS] += 1
        return True

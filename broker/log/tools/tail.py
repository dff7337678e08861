"""Read the last records of a partition's log from its files, and those that a broker appends meanwhile.

New segments are followed. If a batch is not completely written yet, the reader waits for it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from broker.log.tools.targets import NotALogError, PartitionDir, partition_at
from kafkalog.records.any_format import (
    HEADER_SIZES,
    decode_any,
    read_any_header,
    timestamp_type,
    verify_any_crc,
)
from kafkalog.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, BatchHeader, Record
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import names
from kafkalog.storage.batch_walk import headers, stated_size

CHUNK_BYTES = 64 << 10
PATIENCE = 20
"""The number of times that a batch at the end of a file has a wrong checksum before it counts as damaged, not as being
written."""


class Batch(NamedTuple):
    """Hold a whole batch of the log with the right checksum."""

    header: BatchHeader
    records: list[Record]
    timestamp_type: int


class Tail:
    """Read a log from the place on that `start_last` finds.

    Args:
        path: a partition's directory, or a `.log` file, which is then the only one to be read.
    """

    def __init__(self, path: str) -> None:
        self._alone = not os.path.isdir(path)
        self._directory = os.path.dirname(path) or "." if self._alone else path
        self._bases: tuple[int, ...] = ()
        self._fd = -1
        self._path = path
        self._base = -1
        self._position = 0
        self._refused = 0
        self.next_offset = -1
        if self._alone:
            base = names.offset_of(os.path.basename(path))
            if base is None or not path.endswith(names.LOG):
                raise NotALogError(f"{path}: not a .log file of a segment")
            self._bases = (base,)
        else:
            self._look()
            if not self._bases:
                raise NotALogError(f"{path}: no .log file in it")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def start_last(self, count: int) -> None:
        """Go to the batch in which the last `count` records begin.

        Raises:
            OSError: a file cannot be read.
            RecordsError: the log does not read as batches.
        """
        wanted = count
        for base in reversed(self._bases):
            self._open(base)
            starts: deque[tuple[int, int]] = deque()
            held = 0
            end = 0
            for position, header in self._headers():
                # How many messages a wrapper holds is not known: one at least.
                records = 1 if header.magic < MAGIC else 0 if header.is_control else header.records_count
                starts.append((position, records))
                held += records
                end = position + header.size
                self.next_offset = header.next_offset
                # Forget batches that are older than the wanted records.
                while len(starts) > 1 and held - starts[0][1] >= wanted:
                    held -= starts.popleft()[1]
            self._position = starts[0][0] if starts and wanted else end
            wanted -= held
            if wanted <= 0:
                return

    def read(self) -> Iterator[Batch]:
        """Yield the batches from here to the present end; call it again for later ones.

        Raises:
            CorruptRecordError: a batch is damaged.
            OSError: a file cannot be read.
        """
        while True:
            batch = self._next()
            if batch is not None:
                yield batch
            elif not self._advance():
                return

    def _next(self) -> Batch | None:
        head = os.pread(self._fd, HEADER_SIZE, self._position)
        if len(head) <= MAGIC_AT or not any(head[: MAGIC_AT + 1]):
            # Nothing, or the zeros of a preallocated file.
            self._follow_truncation()
            return None
        if len(head) < HEADER_SIZES[min(head[MAGIC_AT], MAGIC)]:
            return None
        try:
            header = read_any_header(head)
            data = os.pread(self._fd, header.size, self._position)
            if len(data) < header.size:
                return None
            verify_any_crc(data, 0, header)
            header, records = decode_any(data, check_crc=False)
        except RecordsError as error:
            if self._may_be_unfinished():
                return None
            raise type(error)(f"{self._log}, position {self._position}: {error}") from None
        self._refused = 0
        self._position += header.size
        self.next_offset = header.next_offset
        return Batch(header, records, timestamp_type(header))

    def _may_be_unfinished(self) -> bool:
        self._refused += 1
        return self._refused <= PATIENCE and self._base == self._bases[-1]

    def _follow_truncation(self) -> None:
        size = os.fstat(self._fd).st_size
        if size < self._position:
            raise CorruptRecordError(f"{self._log} was cut to {size} bytes, behind which records were printed already")

    def _advance(self) -> bool:
        """Go on to the next segment if the log continues there."""
        if self._alone:
            return False
        self._look()
        following = next((base for base in self._bases if base > self._base), None)
        if following is None:
            return False
        # The end was seen twice, so everything that was written here before the next segment was begun has been read.
        if self._unread():
            return False
        self._open(following)
        return True

    def _unread(self) -> bool:
        head = os.pread(self._fd, LOG_OVERHEAD, self._position)
        if not any(head):
            return False
        # Even the length field is incomplete, so the batch is cut off, too.
        size = stated_size(head) or LOG_OVERHEAD
        left = os.fstat(self._fd).st_size - self._position
        if size <= left and self._refused <= PATIENCE:
            return True
        raise CorruptRecordError(f"{self._log}, position {self._position}: a batch is cut off before the next segment")

    def _look(self) -> None:
        found: PartitionDir = partition_at(self._directory)
        self._bases = found.bases

    @property
    def _log(self) -> str:
        return self._path if self._alone else os.path.join(self._directory, names.segment_name(self._base, names.LOG))

    def _open(self, base: int) -> None:
        self.close()
        self._base = base
        self._fd = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        self._position = 0
        self._refused = 0

    def _headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the whole batches of the open file."""
        end = os.fstat(self._fd).st_size
        position = 0
        try:
            for position, header in headers(partial(os.pread, self._fd), 0, end, chunk_bytes=CHUNK_BYTES):
                yield position, header
                position += header.size
        except RecordsError as error:
            # Zeros belong to a preallocated file.
            if any(os.pread(self._fd, MAGIC_AT + 1, position)):
                raise type(error)(f"{self._log}, position {position}: {error}") from None


def last_records(batches: Iterator[Batch], count: int) -> list[tuple[Batch, Record]]:
    """Return the last `count` records, each with its batch, leaving out transaction markers."""
    kept: deque[tuple[Batch, Record]] = deque(maxlen=count)
    for batch in batches:
        if not (batch.header.magic == MAGIC and batch.header.is_control):
            kept.extend((batch, record) for record in batch.records)
    return list(kept)


def follow(tail: Tail, wait: Callable[[], None]) -> Iterator[Batch]:
    """Yield batches for ever; call `wait` whenever there is nothing to read."""
    while True:
        yield from tail.read()
        wait()

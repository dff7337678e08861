"""Partition directories of Kafka 0.7: segments of messages without offsets, named by the byte at which they begin.

`my_topic-0` (0.7's own name; `my_topic_0` in its design paper) holds `00000000000000000000.kafka` and further
segments, each named by the number of bytes before it. 0.7 writes 20 digits; any number of digits is read. A new segment
is begun once one has more than `segment_bytes`. There are no indexes: an offset is a byte position.

As 0.7 does when it starts, the last segment is cut where its valid messages end. A gap between segments is an error,
because data is lost.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from broker.log.files.file_ops import OS, FileOps, make_directories, write_all
from kafkalog.records.compression import Buffer, Codec
from kafkalog.records.legacy.kafka_0_7 import (
    LEAST_BYTES,
    SIZE_BYTES,
    Message,
    encode_messages,
    iter_messages,
    iter_shallow,
    read_message,
    valid_end,
)

logger = logging.getLogger(__name__)

SUFFIX = ".kafka"
DIGITS = 20
READ_BYTES = 1 << 20
DEFAULT_SEGMENT_BYTES = 512 << 20
"""`log.file.size` of 0.7."""

_SEGMENT = re.compile(r"(\d+)\.kafka")
_DIRECTORY = re.compile(r"(.+)[-_](\d+)")


class BrokenLogError(ValueError):
    """Segments do not follow one another, or one before the last is damaged; the message names them."""


@dataclass(slots=True)
class OldSegment:
    """Describe one `.kafka` file: the offset of its first byte, and how many of its bytes count."""

    path: Path
    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size


def segment_name(base: int) -> str:
    return f"{base:0{DIGITS}d}{SUFFIX}"


def partition_of(directory: Path) -> tuple[str, int] | None:
    """Return topic and partition of a directory named `topic-N` or `topic_N`; None for another name."""
    match = _DIRECTORY.fullmatch(directory.name)
    return (match[1], int(match[2])) if match else None


def partition_directories(path: Path) -> list[Path]:
    """Return the directories of partitions with `.kafka` files: `path` itself, or those in it, by name.

    Raises:
        OSError: a directory cannot be read.
    """
    if any(_SEGMENT.fullmatch(entry.name) for entry in path.iterdir()):
        return [path]
    found = [entry for entry in path.iterdir() if entry.is_dir() and partition_of(entry)]
    return sorted(each for each in found if any(_SEGMENT.fullmatch(entry.name) for entry in each.iterdir()))


class OldLog:
    """Read the log of one partition of Kafka 0.7 from any offset, and append to it.

    Made by `open`. It must not be used while a broker appends to the log.
    """

    def __init__(self, directory: Path, segments: list[OldSegment], segment_bytes: int, ops: FileOps) -> None:
        self.directory = directory
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._ops = ops
        self._fd = -1

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        writable: bool = False,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        ops: FileOps = OS,
    ) -> Self:
        """Open the log in `directory`; with `writable`, make the directory if it does not exist.

        Bytes after the last valid message of the last segment do not count; with `writable` they are cut off.

        Raises:
            BrokenLogError: segments do not follow one another.
            OSError: something cannot be read or written.
        """
        path = Path(directory)
        if writable:
            make_directories(ops, str(path.absolute()))
        segments = []
        for entry in path.iterdir():
            match = _SEGMENT.fullmatch(entry.name)
            if match:
                segments.append(OldSegment(entry, int(match[1]), entry.stat().st_size))
        segments.sort(key=lambda segment: segment.base)
        for before, segment in pairwise(segments):
            if before.end != segment.base:
                raise BrokenLogError(
                    f"{before.path} ends at offset {before.end}, and {segment.path} does not begin there: "
                    "a segment is missing, or has another size than it had"
                )
        log = cls(path, segments, segment_bytes, ops)
        if segments:
            log._recover(segments[-1], writable)
        elif writable:
            log._add(0)
        return log

    def _recover(self, segment: OldSegment, writable: bool) -> None:
        size, segment.size = segment.size, 0
        for data, at in _chunks(segment.path, 0, size):
            end = valid_end(data)
            segment.size = at + end
            if end != len(data):
                break
        if segment.size == size:
            return
        logger.warning(
            "%s: %d bytes after position %d are no whole messages%s", segment.path, size - segment.size, segment.size,
            " and were cut off" if writable else "",
        )  # fmt: skip
        if writable:
            fd = self._ops.open(str(segment.path), os.O_RDWR)
            try:
                self._ops.ftruncate(fd, segment.size)
                self._ops.fsync(fd)
            finally:
                os.close(fd)

    @property
    def start(self) -> int:
        """The first offset; 0 unless older segments were deleted."""
        return self._segments[0].base if self._segments else 0

    @property
    def end(self) -> int:
        """The offset that the next message gets."""
        return self._segments[-1].end if self._segments else 0

    @property
    def segments(self) -> Sequence[OldSegment]:
        return self._segments

    def messages(self, offset: int | None = None) -> Iterator[Message]:
        """Yield the messages from `offset` on (default: the first), as they were sent.

        Raises:
            ValueError: `offset` is not within the log.
            BrokenLogError: a segment is damaged before its end, or no message begins at `offset`.
            OSError: a file cannot be read.
        """
        at = self.start if offset is None else offset
        if not self.start <= at <= self.end:
            raise ValueError(f"offset {at} is not within [{self.start}, {self.end}] of {self.directory}")
        bases = [segment.base for segment in self._segments]
        for segment in self._segments[max(bisect_right(bases, at) - 1, 0) :]:
            position = max(at - segment.base, 0)
            for data, begin in _chunks(segment.path, position, segment.size):
                position = begin
                try:
                    for message in iter_messages(data, base=segment.base + begin):
                        yield message
                        position = message.next_offset - segment.base
                except ValueError as error:
                    raise BrokenLogError(f"{segment.path} is damaged at position {position}: {error}") from error
            if position != segment.size:
                raise BrokenLogError(f"{segment.path} ends within a message, at position {position}")

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, payloads: Sequence[Buffer], *, magic: int = 1, codec: int = Codec.NONE) -> int:
        """Append messages, with a `codec` as one compressed message; return the offset of the first.

        Raises:
            OSError: they could not be written; none of them is in the log.
        """
        data = encode_messages(payloads, magic=magic, codec=codec)
        segment = self._segments[-1]
        if segment.size > self._segment_bytes:
            self.flush()
            self._close()
            segment = self._add(segment.end)
        if self._fd < 0:
            self._fd = self._ops.open(str(segment.path), os.O_RDWR)
        try:
            write_all(self._ops, self._fd, memoryview(data), segment.size)
        except OSError:
            # The bytes that were written may be whole messages, which the next start would take for appended ones.
            self._ops.ftruncate(self._fd, segment.size)
            raise
        offset = segment.end
        segment.size += len(data)
        return offset

    def _add(self, base: int) -> OldSegment:
        segment = OldSegment(self.directory / segment_name(base), base, 0)
        self._fd = self._ops.open(str(segment.path), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._segments.append(segment)
        return segment

    def flush(self) -> None:
        """Force the appended messages, and the names in the directory, to the device."""
        if self._fd >= 0:
            self._ops.fsync(self._fd)
            self._ops.fsync_dir(str(self.directory))

    def close(self) -> None:
        """Flush, and close the file that takes the appends."""
        self.flush()
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _chunks(path: Path, position: int, size: int) -> Iterator[tuple[memoryview, int]]:
    """Yield `(bytes, position)` of whole messages of a file, READ_BYTES or one message at a time, and last the rest.

    A size is trusted only up to the end of the file.
    """
    with path.open("rb") as file:
        want = READ_BYTES
        while position < size:
            file.seek(position)
            data = memoryview(file.read(min(want, size - position)))
            end = _whole(data)
            if end:
                yield data[:end], position
                position += end
                want = READ_BYTES
                continue
            stated = int.from_bytes(data[:SIZE_BYTES], "big", signed=True) if len(data) >= SIZE_BYTES else 0
            if len(data) < SIZE_BYTES + stated <= size - position:
                want = SIZE_BYTES + stated
                continue
            # A walk over it will show the damage.
            yield data, position
            return


def _whole(data: memoryview) -> int:
    """Return how many bytes of `data` are whole messages, damaged or not."""
    end = 0
    try:
        while len(data) - end >= LEAST_BYTES and (message := read_message(data, end)) is not None:
            end = message.end
    except ValueError:
        pass
    return end


def dump_lines(path: Path, *, deep: bool = False, payloads: bool = False) -> Iterator[str]:
    """Yield lines about a `.kafka` file, as `dump` does: the stored messages or, with `deep`, the sent ones.

    Raises:
        ValueError: the file's name is not a segment's.
        OSError: it cannot be read.
    """
    match = _SEGMENT.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path} is not named like a segment of Kafka 0.7, {segment_name(0)}")
    base, size = int(match[1]), path.stat().st_size
    yield f"Starting offset: {base}"
    position = 0
    for data, begin in _chunks(path, 0, size):
        position = begin
        try:
            for stored in iter_shallow(data):
                position = begin + stored.end
                right = stored.crc == zlib.crc32(data[stored.payload_at : stored.end])
                yield (
                    f"offset: {base + begin + stored.position} position: {begin + stored.position} "
                    f"size: {stored.size} magic: {stored.magic} compresscodec: {stored.codec.name.lower()} "
                    f"crc: {stored.crc} isvalid: {'true' if right else 'false'}"
                )
                if right and (deep or payloads):
                    for message in iter_messages(data[stored.position : stored.end], base=base + begin):
                        shown = f" payload: {message.payload.decode(errors='replace')}" if payloads else ""
                        yield f"| nextoffset: {base + position} payloadsize: {len(message.payload)}{shown}"
        except ValueError as error:
            yield f"Found {size - position} invalid bytes at the end of {path.name}: {error}"
            return
    if position != size:
        yield f"Found {size - position} invalid bytes at the end of {path.name}"

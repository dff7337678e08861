"""Checkpoint files: small tables of offsets or leader epochs.

Text in UTF-8, one row a line, columns separated by one space, every line ended by a newline, as Apache Kafka 3.9 writes
it (`CheckpointFile`)::

    0            version
    2            number of rows
    orders 0 57  topic, partition (0 to 2^31 - 1), offset (0 to 2^63 - 1)
    orders 1 12

    0            leader-epoch-checkpoint: leader epoch (0 to 2^31 - 1) and its first offset, oldest first
    1
    4 118

A log directory has four offset checkpoints at its top: the recovery points (up to where each log is flushed), the log
start offsets, the high watermarks, and the offsets up to which logs were compacted. Each partition's directory has a
`leader-epoch-checkpoint`. A broker writes a file to `<name>.tmp`, syncs it and renames it, so that a crash leaves
the old or the new table. An empty file is a table without rows; Apache Kafka creates it before it has anything to
write.

A topic's name is one word of a row, so names with white space or control characters cannot be stored. Apache Kafka
refuses a table with any unreadable row, and so does `parse_offsets`. `salvage_offsets` keeps the other rows; without
them, records that clients deleted from other topics would reappear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

VERSION = 0
MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1


class CorruptCheckpointError(ValueError):
    """A file cannot be parsed; the message names the line or the value."""


class Salvaged(NamedTuple):
    """The readable part of an offset checkpoint."""

    offsets: dict[tuple[str, int], int]
    problems: list[str]
    """The errors in the rest; empty for an undamaged file."""


# -- offset checkpoints ------------------------------------------------------------------------------------------------


def parse_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """Parse an offset checkpoint into `{(topic, partition): offset}`.

    Raises:
        CorruptCheckpointError: The file, or one of its rows, cannot be parsed.
    """
    offsets, problems = salvage_offsets(data)
    if problems:
        raise CorruptCheckpointError(problems[0])
    return offsets


def salvage_offsets(data: bytes) -> Salvaged:
    """Parse the readable rows of an offset checkpoint, and describe the errors in the others.

    Raises:
        CorruptCheckpointError: The file is not a table of a known version.
    """
    count, lines = _table(data)
    offsets: dict[tuple[str, int], int] = {}
    problems: list[str] = []
    if len(lines) < count and not data.endswith((b"\n", b"\r")):
        # The file was cut, possibly within an offset.
        problems.append(f"line {len(lines) + 2} has no end")
        lines = lines[:-1]
    for number, line in enumerate(lines, 3):
        try:
            topic, partition, offset = _columns(line, 3)
            offsets[topic, _number(partition, MAX_INT)] = _number(offset, MAX_LONG)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if not problems and len(lines) != count:
        problems.append(f"{len(lines)} rows where {count} were announced")
    return Salvaged(offsets, problems)


def can_have_a_row(topic: str) -> bool:
    """Return whether a topic's name is one word, so that a row can contain it."""
    return topic.isprintable() and topic != "" and " " not in topic


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return the bytes of an offset checkpoint.

    Raises:
        ValueError: A row cannot contain a topic's name.
    """
    for topic, _ in offsets:
        if not can_have_a_row(topic):
            raise ValueError(f"no row of a checkpoint can have the topic {topic!r}")
    return _format(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


# -- leader epochs -----------------------------------------------------------------------------------------------------


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """Parse a leader-epoch checkpoint into `(leader epoch, start offset)` rows.

    Raises:
        CorruptCheckpointError: The file, or one of its rows, cannot be parsed.
    """
    count, lines = _table(data)
    epochs = []
    for number, line in enumerate(lines, 3):
        try:
            epoch, start = _columns(line, 2)
            epochs.append((_number(epoch, MAX_INT), _number(start, MAX_LONG)))
        except ValueError as error:
            raise CorruptCheckpointError(f"line {number}: {error}") from None
    if len(lines) != count:
        raise CorruptCheckpointError(f"{len(lines)} rows where {count} were announced")
    return epochs


def format_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes of a leader-epoch checkpoint."""
    return _format(f"{epoch} {start}" for epoch, start in epochs)


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(data: bytes) -> tuple[int, list[bytes]]:
    """Return the number of rows that a table states, and its non-empty lines."""
    if not data:
        return 0, []
    # Split as bytes: `str` has further line ends, which a name may contain.
    lines = data.splitlines()
    try:
        version, count = (_number(line.decode().strip(), MAX_INT) for line in lines[:2])
    except ValueError:
        raise CorruptCheckpointError("does not begin with a version and a number of rows") from None
    if version != VERSION:
        raise CorruptCheckpointError(f"unknown version {version}")
    return count, [line for line in lines[2:] if line.strip()]


def _columns(line: bytes, count: int) -> list[str]:
    text = line.decode(errors="backslashreplace")
    columns = text.split()
    if len(columns) != count or (not line.isascii() and text.encode() != line):
        raise ValueError(f"not {count} columns: {text[:300]!r}")
    return columns


def _number(text: str, limit: int) -> int:
    """Parse a number from 0 to `limit`.

    Raises:
        ValueError: The text is another.
    """
    # int() takes signs, underscores and other scripts' digits, and thousands of them.
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= limit):
        raise ValueError(f"{text[:30]!r} is no number from 0 to {limit}")
    return int(text)


def _format(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return ("\n".join([str(VERSION), str(len(lines)), *lines]) + "\n").encode()

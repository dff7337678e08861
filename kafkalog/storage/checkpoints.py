"""Checkpoint files: small tables that say how far something is true.

Text in UTF-8, one row a line, columns separated by one space, every line ended by a newline, as Apache Kafka 3.9 writes
it (``CheckpointFile``)::

    0            version
    2            number of rows
    orders 0 57  topic, partition (0 to 2^31 - 1), offset (0 to 2^63 - 1)
    orders 1 12

    0            leader-epoch-checkpoint: leader epoch (0 to 2^31 - 1) and its first offset, oldest first
    1
    4 118

Offset checkpoints lie at the top of a log directory: up to where each log is on the device (recovery points), where it
begins, its high watermark, and up to where it was compacted. A ``leader-epoch-checkpoint`` lies in each partition's
directory. A broker writes each to ``<name>.tmp``, forces that to the device and renames it, so that a crash leaves the
old or the new table. An empty file is a table without rows: Apache Kafka makes it before it has anything to write.

A topic's name is one word of a row, so a name with white space or a control character cannot stand in one. Apache Kafka
refuses a table in which any row does not read. `parse_offsets` does, too; `salvage_offsets` keeps the other rows, for
without them records that clients deleted from other topics would be back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

VERSION = 0
MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1


class CorruptCheckpointError(ValueError):
    """A file that does not read as what it is; the message names the line or the value."""


class Salvaged(NamedTuple):
    """What could be read of an offset checkpoint."""

    offsets: dict[tuple[str, int], int]
    problems: list[str]
    """What is wrong with the rest; empty for a sound file."""


# -- offset checkpoints ------------------------------------------------------------------------------------------------


def parse_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """``{(topic, partition): offset}`` of an offset checkpoint.

    Raises:
        CorruptCheckpointError: the file, or one of its rows, does not read.
    """
    offsets, problems = salvage_offsets(data)
    if problems:
        raise CorruptCheckpointError(problems[0])
    return offsets


def salvage_offsets(data: bytes) -> Salvaged:
    """The rows of an offset checkpoint that read, and what is wrong with the others.

    Raises:
        CorruptCheckpointError: there is no table of a known version.
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
    """Whether a topic's name is one word, so that it can stand in a row."""
    return topic.isprintable() and topic != "" and " " not in topic


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """The bytes of an offset checkpoint.

    Raises:
        ValueError: a topic's name cannot stand in a row.
    """
    for topic, _ in offsets:
        if not can_have_a_row(topic):
            raise ValueError(f"no row of a checkpoint can have the topic {topic!r}")
    return _format(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


# -- leader epochs -----------------------------------------------------------------------------------------------------


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """``(leader epoch, start offset)`` rows of a leader-epoch checkpoint.

    Raises:
        CorruptCheckpointError: the file, or one of its rows, does not read.
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
    """The bytes of a leader-epoch checkpoint."""
    return _format(f"{epoch} {start}" for epoch, start in epochs)


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(data: bytes) -> tuple[int, list[bytes]]:
    """The number of rows that a table announces, and its lines that are not empty."""
    if not data:
        return 0, []
    # Not the line ends that `str` knows besides these: a name may hold them.
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
    """The number from 0 to ``limit`` in ``text``; ValueError where there is none."""
    # int() takes signs, underscores and other scripts' digits, and thousands of them.
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= limit):
        raise ValueError(f"{text[:30]!r} is no number from 0 to {limit}")
    return int(text)


def _format(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return ("\n".join([str(VERSION), str(len(lines)), *lines]) + "\n").encode()

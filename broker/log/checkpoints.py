"""Checkpoint files: small tables that say how far something is true.

Text, one value a line, as Apache Kafka writes them::

    0            version
    2            number of rows
    orders 0 57  rows: topic, partition, offset   (recovery points, log start offsets, high watermarks)
    orders 1 12

    0            leader-epoch-checkpoint: rows are leader epoch and its first offset
    1
    4 118

``partition.metadata`` is two lines, ``version: 0`` and ``topic_id: <22 characters of base64url>``;
``.kafka_cleanshutdown`` is JSON, ``{"version":0,"brokerEpoch":-1}`` (older brokers leave it empty);
``meta.properties`` is a Java properties file with ``version``, ``cluster.id`` and ``broker.id``.

Each is written to ``<name>.tmp``, synced and renamed, so that a crash leaves the old or the new one.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Iterable, Mapping

from broker.log.config import MAX_LONG
from broker.log.file_ops import OS, FileOps, write_all, write_file_atomically
from kafkalog.storage import names

VERSION = 0
MAX_INT = (1 << 31) - 1


class CorruptCheckpointError(ValueError):
    """A checkpoint file that does not read as one; the message names the file and the line."""


def read_table(path: str, columns: int) -> list[list[str]]:
    """Rows of a checkpoint file; none when there is no file.

    Raises:
        CorruptCheckpointError: wrong version, row count or number of columns.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path}: not text: {error}") from error
    try:
        version, count = _number(lines[0].strip(), MAX_INT), _number(lines[1].strip(), MAX_INT)
    except (IndexError, ValueError):
        raise CorruptCheckpointError(f"{path}: does not begin with a version and a number of rows") from None
    if version != VERSION:
        raise CorruptCheckpointError(f"{path}: unknown version {version}")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != count:
        raise CorruptCheckpointError(f"{path}: {len(rows)} rows where {lines[1]} were announced")
    for number, row in enumerate(rows, 3):
        if len(row) != columns:
            raise CorruptCheckpointError(f"{path}: line {number} is not {columns} columns: {' '.join(row)!r}")
    return rows


def _number(text: str, limit: int) -> int:
    """The number from 0 to ``limit`` in ``text``; ValueError where there is none."""
    # int() takes signs, underscores and other scripts' digits, and thousands of them.
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= limit):
        raise ValueError(f"{text[:30]!r} is no number from 0 to {limit}")
    return int(text)


def write_table(path: str, rows: Iterable[str], ops: FileOps = OS, *, durably: bool = True) -> None:
    """Write a checkpoint file of the given rows, atomically; without ``durably`` simply in its place."""
    lines = list(rows)
    text = "\n".join([str(VERSION), str(len(lines)), *lines]) + "\n"
    if durably:
        write_file_atomically(ops, path, text.encode())
        return
    fd = ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(ops, fd, text.encode(), 0)
    finally:
        os.close(fd)


def read_offsets(path: str) -> dict[tuple[str, int], int]:
    """``{(topic, partition): offset}`` of an offset checkpoint; empty when there is no file.

    Raises:
        CorruptCheckpointError: the file does not read as one.
    """
    offsets = {}
    for topic, partition, offset in read_table(path, 3):
        try:
            offsets[topic, _number(partition, MAX_INT)] = _number(offset, MAX_LONG)
        except ValueError as error:
            raise CorruptCheckpointError(f"{path}: {topic} {partition}: {error}") from error
    return offsets


def write_offsets(path: str, offsets: Mapping[tuple[str, int], int], ops: FileOps = OS) -> None:
    """Write an offset checkpoint, atomically."""
    write_table(path, (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()), ops)


def read_epochs(path: str) -> list[tuple[int, int]]:
    """``(leader epoch, start offset)`` rows of a leader-epoch checkpoint; empty when there is no file.

    Raises:
        CorruptCheckpointError: the file does not read as one.
    """
    try:
        return [(_number(epoch, MAX_INT), _number(start, MAX_LONG)) for epoch, start in read_table(path, 2)]
    except ValueError as error:
        if isinstance(error, CorruptCheckpointError):
            raise
        raise CorruptCheckpointError(f"{path}: {error}") from error


def write_epochs(path: str, epochs: Iterable[tuple[int, int]], ops: FileOps = OS, *, durably: bool = True) -> None:
    """Write a leader-epoch checkpoint, atomically; without ``durably`` simply in its place."""
    write_table(path, (f"{epoch} {start}" for epoch, start in epochs), ops, durably=durably)


# -- partition.metadata --------------------------------------------------------------------------------------


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's text of a uuid: its 16 bytes in base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """The uuid of its 22 characters.

    Raises:
        ValueError: it is not 16 bytes of base64url.
    """
    return uuid.UUID(bytes=base64.b64decode(text.strip() + "==", altchars=b"-_", validate=True))


def read_partition_metadata(directory: str) -> uuid.UUID | None:
    """Topic id of the partition in ``directory``, or None when no file says.

    An empty file says nothing: it is what a power failure leaves of one that had not been forced to the device.

    Raises:
        CorruptCheckpointError: the file does not read as one.
    """
    path = os.path.join(directory, names.PARTITION_METADATA)
    try:
        with open(path, encoding="utf-8") as file:
            values = dict(line.partition(":")[::2] for line in file.read().splitlines() if line.strip())
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path}: not text: {error}") from error
    if not values:
        return None
    try:
        if int(values["version"]) != VERSION:
            raise CorruptCheckpointError(f"{path}: unknown version {values['version']}")
        return decode_uuid(values["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: does not read as partition metadata: {error}") from error


def write_partition_metadata(directory: str, topic_id: uuid.UUID, ops: FileOps = OS) -> None:
    """Record the topic id of the partition in ``directory``.

    Not forced to the device here, which for a topic of a thousand partitions would take seconds: the log's first
    flush does it (`sync_partition_metadata`), as in Kafka.
    """
    text = f"version: {VERSION}\ntopic_id: {encode_uuid(topic_id)}"
    path = os.path.join(directory, names.PARTITION_METADATA)
    write_file_atomically(ops, path, text.encode(), sync=False)


def sync_partition_metadata(directory: str, ops: FileOps = OS) -> None:
    """Force the file to the device, if there is one. The directory is the caller's to sync."""
    try:
        fd = ops.open(os.path.join(directory, names.PARTITION_METADATA), os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        ops.fsync(fd)
    finally:
        os.close(fd)


# -- .kafka_cleanshutdown and meta.properties ----------------------------------------------------------------


def take_clean_shutdown(directory: str, ops: FileOps = OS) -> bool:
    """Whether the log directory was shut down cleanly; removes the marker, so that a crash from now on is
    seen.
    """
    path = os.path.join(directory, names.CLEAN_SHUTDOWN)
    if not os.path.exists(path):
        return False
    ops.unlink(path)
    ops.fsync_dir(directory)
    return True


def write_clean_shutdown(directory: str, broker_epoch: int = -1, ops: FileOps = OS) -> None:
    """Leave the marker that says: everything here is flushed and checkpointed."""
    text = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_file_atomically(ops, os.path.join(directory, names.CLEAN_SHUTDOWN), text.encode())


def read_meta_properties(directory: str) -> dict[str, str]:
    """Keys of ``meta.properties`` (``cluster.id``, ``broker.id``, …); empty when there is no file."""
    try:
        with open(os.path.join(directory, names.META_PROPERTIES), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    rows = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith(("#", "!")))
    return {key.strip(): value.strip().replace("\\:", ":").replace("\\=", "=") for key, _, value in rows}


def write_meta_properties(directory: str, values: Mapping[str, str], ops: FileOps = OS) -> None:
    """Write ``meta.properties``, atomically."""
    text = "#\n" + "".join(f"{key}={value}\n" for key, value in values.items())
    write_file_atomically(ops, os.path.join(directory, names.META_PROPERTIES), text.encode())

"""Reading and writing the small files of a log directory: checkpoints, topic ids, identity, clean-shutdown marker.

`kafkalog.storage.checkpoints` and `kafkalog.storage.properties` describe the formats. Each file is written to
`<name>.tmp`, synced and renamed, so that a crash leaves the old or the new file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from broker.log.files.file_ops import OS, FileOps, write_all, write_file_atomically
from kafkalog.storage import checkpoints, names, properties
from kafkalog.storage.checkpoints import CorruptCheckpointError, Salvaged

_T = TypeVar("_T")


def _read(path: str, parse: Callable[[bytes], _T], without: _T) -> _T:
    """Read the file and return the result of `parse`; `without` if there is no file.

    Raises:
        CorruptCheckpointError: the file is damaged; the message begins with its path.
        OSError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return without
    try:
        return parse(data)
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error


# -- tables ------------------------------------------------------------------------------------------------------------


def read_offsets(path: str) -> dict[tuple[str, int], int]:
    """Read `{(topic, partition): offset}` from an offset checkpoint; empty if there is no file.

    Raises:
        CorruptCheckpointError: the file, or a row of it, is damaged.
    """
    return _read(path, checkpoints.parse_offsets, {})


def salvage_offsets(path: str) -> Salvaged:
    """Read the valid rows of an offset checkpoint; none if there is no file.

    Raises:
        CorruptCheckpointError: the file is no table.
    """
    return _read(path, checkpoints.salvage_offsets, Salvaged({}, []))


def write_offsets(path: str, offsets: Mapping[tuple[str, int], int], ops: FileOps = OS) -> None:
    """Write an offset checkpoint atomically.

    Raises:
        ValueError: a topic's name cannot be written in a row.
        OSError: the file cannot be written.
    """
    write_file_atomically(ops, path, checkpoints.format_offsets(offsets))


def read_epochs(path: str) -> list[tuple[int, int]]:
    """Read the rows `(leader epoch, start offset)` of a leader-epoch checkpoint; empty if there is no file.

    Raises:
        CorruptCheckpointError: the file is damaged.
    """
    return _read(path, checkpoints.parse_epochs, [])


def write_epochs(
    path: str, epochs: Iterable[tuple[int, int]], ops: FileOps = OS, *, durably: bool = True, sync_dir: bool = True
) -> None:
    """Write a leader-epoch checkpoint atomically; without `durably`, overwrite it and force nothing.

    Without `sync_dir` a power failure may bring the file of before back.
    """
    data = checkpoints.format_epochs(epochs)
    if durably:
        write_file_atomically(ops, path, data, sync_dir=sync_dir)
        return
    fd = ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(ops, fd, data, 0)
    finally:
        os.close(fd)


# -- partition.metadata ------------------------------------------------------------------------------------------------


def read_partition_metadata(directory: str) -> uuid.UUID | None:
    """Read the topic id of the partition in `directory`; None if no file has it.

    An empty file counts as none: a power failure leaves it if the file was not yet forced to the device.

    Raises:
        CorruptCheckpointError: the file is damaged.
    """
    return _read(os.path.join(directory, names.PARTITION_METADATA), properties.parse_partition_metadata, None)


def write_partition_metadata(directory: str, topic_id: uuid.UUID, ops: FileOps = OS) -> None:
    """Record the topic id of the partition in `directory`.

    The file is not forced to the device here, because that would take seconds for a topic of a thousand partitions. The
    log's first flush does it (`sync_partition_metadata`), as in Kafka.
    """
    path = os.path.join(directory, names.PARTITION_METADATA)
    write_file_atomically(ops, path, properties.format_partition_metadata(topic_id), sync=False)


def sync_partition_metadata(directory: str, ops: FileOps = OS) -> None:
    """Force the file to the device, if there is one. The caller forces the directory."""
    try:
        fd = ops.open(os.path.join(directory, names.PARTITION_METADATA), os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        ops.fsync(fd)
    finally:
        os.close(fd)


# -- .kafka_cleanshutdown and meta.properties --------------------------------------------------------------------------


def take_clean_shutdown(directory: str, ops: FileOps = OS) -> bool:
    """Return whether the log directory was shut down cleanly, and remove the marker, so that a crash will show."""
    path = os.path.join(directory, names.CLEAN_SHUTDOWN)
    if not os.path.exists(path):
        return False
    ops.unlink(path)
    ops.fsync_dir(directory)
    return True


def write_clean_shutdown(directory: str, broker_epoch: int = -1, ops: FileOps = OS) -> None:
    """Write the marker which says that everything in the directory is flushed and checkpointed."""
    path = os.path.join(directory, names.CLEAN_SHUTDOWN)
    write_file_atomically(ops, path, properties.format_clean_shutdown(broker_epoch))


def read_meta_properties(directory: str) -> dict[str, str]:
    """Read the keys of `meta.properties` (`cluster.id`, `broker.id`, …); empty if there is no file."""
    return _read(os.path.join(directory, names.META_PROPERTIES), properties.parse_meta_properties, {})


def write_meta_properties(directory: str, values: Mapping[str, str], ops: FileOps = OS) -> None:
    """Write `meta.properties` atomically."""
    path = os.path.join(directory, names.META_PROPERTIES)
    write_file_atomically(ops, path, properties.format_meta_properties(values))

"""The content of a log's files as values for JSON: what `dump` prints as text, as one object for each batch or row."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import Any

from broker.log.directories.checkpoints import read_epochs, read_meta_properties, read_offsets
from broker.log.directories.checkpoints import read_partition_metadata as read_metadata
from broker.log.index.index_file import CorruptIndexError
from broker.log.index.transaction_index import TransactionIndex
from broker.log.producer_state import producer_snapshots
from broker.log.producer_state.control_batches import parse_marker
from broker.log.segment.batch_scan import headers
from broker.log.tools.dump import ALL_BYTES, is_valid, time_index_entries
from broker.log.tools.dump import offset_index_entries as index_entries
from kafkalog.records.any_format import decode_any, timestamp_type
from kafkalog.records.batch import MAGIC, BatchHeader, Record
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError
from kafkalog.storage.properties import encode_uuid
from kafkalog.storage.snapshots import CorruptSnapshotError

_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


def dump_rows(
    path: str, *, deep: bool = False, contents: bool = False, max_bytes: int = ALL_BYTES
) -> Iterator[dict[str, Any]]:
    """Yield an object for each batch or row; `deep` adds the batch's records, `contents` their keys and values.

    `max_bytes` are the most bytes of a `.log` file that are read.

    Each object has `file` and `type`: batch, offset, timestamp, aborted_transaction, producer, leader_epoch,
    checkpoint, partition_metadata, meta_properties, or problem. Keys and values that are not UTF-8 are given in base64,
    under `key_base64` and the like.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        # Some files are read here, others row by row.
        kind, rows = _rows(path, deep or contents, contents, max_bytes)
        for row in rows:
            yield {"file": path, "type": kind, **row}
    except (
        RecordsError, CorruptCheckpointError, CorruptIndexError, CorruptSnapshotError, UnicodeDecodeError,
    ) as error:  # fmt: skip
        yield {"file": path, "type": "problem", "problem": str(error).removeprefix(f"{path}: ")}


def _rows(path: str, deep: bool, contents: bool, max_bytes: int) -> tuple[str, Iterator[dict[str, Any]]]:
    name = os.path.basename(path)
    base = names.offset_of(name) or 0
    if name.endswith(names.LOG):
        return "batch", _batches(path, deep, contents, max_bytes)
    if name.endswith(names.TIME_INDEX):
        return "timestamp", ({"timestamp": at, "offset": base + relative} for at, relative in time_index_entries(path))
    if name.endswith(names.INDEX):
        return "offset", ({"offset": base + relative, "position": at} for relative, at in index_entries(path))
    if name.endswith(names.TXN_INDEX):
        return "aborted_transaction", (row._asdict() for row in TransactionIndex(path, base).items())
    if name.endswith(names.SNAPSHOT):
        return "producer", _snapshot(path)
    if name == names.LEADER_EPOCH_CHECKPOINT:
        return "leader_epoch", ({"epoch": epoch, "start_offset": start} for epoch, start in read_epochs(path))
    if name in names.OFFSET_CHECKPOINTS:
        return "checkpoint", _checkpoint(path)
    if name == names.PARTITION_METADATA:
        return "partition_metadata", _metadata(path)
    if name == names.META_PROPERTIES:
        return "meta_properties", iter([dict(read_meta_properties(os.path.dirname(path) or "."))])
    return "problem", iter([{"problem": "not a file of a log"}])


def _checkpoint(path: str) -> Iterator[dict[str, Any]]:
    for (topic, partition), offset in read_offsets(path).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _metadata(path: str) -> Iterator[dict[str, Any]]:
    topic_id = read_metadata(os.path.dirname(path) or ".")
    yield {"topic_id": None if topic_id is None else encode_uuid(topic_id)}


def _snapshot(path: str) -> Iterator[dict[str, Any]]:
    for row in producer_snapshots.read(path):
        yield row._asdict()


def _batches(path: str, deep: bool, contents: bool, max_bytes: int) -> Iterator[dict[str, Any]]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = min(os.fstat(fd).st_size, max_bytes)
        end = 0
        for position, header in headers(fd, 0, size):
            batch = os.pread(fd, header.size, position)
            end = position + header.size
            yield _batch(header, batch, position, deep, contents)
        if end < size and max_bytes >= ALL_BYTES:
            raise RecordsError(f"{size - end} invalid bytes at the end, from position {end} on")
    finally:
        os.close(fd)


def _batch(header: BatchHeader, batch: bytes, position: int, deep: bool, contents: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "position": position,
        "size": header.size,
        "magic": header.magic,
        "crc": header.crc,
        "valid": is_valid(batch, header),
        "codec": header.codec.name.lower(),
        "timestamp_type": _TIMESTAMP_TYPES[timestamp_type(header) + 1],
        "max_timestamp": header.max_timestamp,
        "last_offset": header.last_offset,
    }
    if header.magic == MAGIC:
        row |= {
            "base_offset": header.base_offset,
            "records_count": header.records_count,
            "partition_leader_epoch": header.partition_leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "delete_horizon": header.delete_horizon,
        }
    # One batch that does not read must not hide those behind it.
    try:
        # Compaction leaves a control batch without a record, to keep the producer's epoch.
        if header.is_control and row["valid"] and header.records_count > 0:
            row |= _marker(batch)
        if deep:
            row["records"] = [record_row(record, contents) for record in decode_any(batch, check_crc=False)[1]]
    except RecordsError as error:
        row["problem"] = str(error)
    return row


def _marker(batch: bytes) -> dict[str, Any]:
    marker = parse_marker(memoryview(batch))
    if marker is None:
        return {}
    return {"marker": "ABORT" if marker.aborted else "COMMIT", "coordinator_epoch": marker.coordinator_epoch}


def record_row(record: Record, contents: bool = True) -> dict[str, Any]:
    """Return a record as an object; with `contents` its key, value and headers, else their sizes."""
    row: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if not contents:
        sizes = {"key_size": record.key, "value_size": record.value}
        row |= {name: None if data is None else len(data) for name, data in sizes.items()}
        return row | {"header_keys": [key for key, _ in record.headers]}
    row |= {**_text("key", record.key), **_text("value", record.value)}
    if record.headers:
        row["headers"] = [{"key": key, **_text("value", value)} for key, value in record.headers]
    return row


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}

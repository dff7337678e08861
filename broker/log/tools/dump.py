"""The content of a log's files as text, as Apache Kafka's `kafka-dump-log` prints it.

This handles `.log`, `.index`, `.timeindex`, `.txnindex` and `.snapshot` files and the checkpoint files, and
only reads them. Index entries are compared with the log beside them; mismatches are reported in the words of Kafka's
tool.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from broker.log.directories.checkpoints import read_epochs, read_offsets
from broker.log.index.transaction_index import TransactionIndex
from broker.log.producer_state.control_batches import parse_marker
from broker.log.producer_state.producer_entry import SEQUENCE_MASK, BatchMetadata
from broker.log.producer_state.producer_snapshots import read
from broker.log.segment.batch_scan import headers
from kafkalog.records.any_format import decode_any, timestamp_type, verify_any_crc
from kafkalog.records.batch import MAGIC, BatchHeader, Record
from kafkalog.records.control import parse_control_type
from kafkalog.records.errors import RecordsError
from kafkalog.records.legacy import message_set
from kafkalog.storage import names
from kafkalog.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY, offset_rows, time_rows
from kafkalog.storage.snapshots import CorruptSnapshotError

ALL_BYTES = (1 << 31) - 1
"""Stands for no bound: Kafka's segments are no larger."""


def dump_file(
    path: str | os.PathLike[str],
    *,
    deep_iteration: bool = False,
    print_data_log: bool = False,
    skip_record_metadata: bool = False,
    verify_index_only: bool = False,
    index_sanity_check: bool = False,
    max_bytes: int = ALL_BYTES,
    problems: list[str] | None = None,
) -> Iterator[str]:
    """Yield lines that describe the file at `path`.

    Args:
        deep_iteration: of a `.log` file, print every record of every batch.
        print_data_log: print keys and values, too; implies `deep_iteration`.
        skip_record_metadata: with `print_data_log`, leave out offsets, timestamps and sizes.
        verify_index_only: compare an index with its log, and print mismatches only.
        index_sanity_check: only say whether an index file looks valid.
        max_bytes: stop after so many bytes of a `.log` file.
        problems: gets the lines about mismatches, which are otherwise yielded last.

    Raises:
        OSError: the file, or the log beside an index, cannot be read.
        CorruptCheckpointError: a checkpoint file is damaged.
        CorruptIndexError: a transaction index is damaged.
    """
    file = os.fspath(path)
    name = os.path.basename(file)
    found: list[str] = [] if problems is None else problems
    yield f"Dumping {file}"
    if name.endswith(names.LOG):
        yield from _dump_log(
            file, deep_iteration or print_data_log, print_data_log, skip_record_metadata, max_bytes, found
        )
    elif name.endswith(names.TIME_INDEX):
        yield from _dump_time_index(file, verify_index_only, index_sanity_check, found)
    elif name.endswith(names.INDEX):
        yield from _dump_index(file, verify_index_only, index_sanity_check, found)
    elif name.endswith(names.TXN_INDEX):
        yield from _dump_transaction_index(file)
    elif name.endswith(names.SNAPSHOT):
        yield from _dump_snapshot(file, found)
    elif name == names.LEADER_EPOCH_CHECKPOINT:
        yield from (f"epoch: {epoch} startOffset: {start}" for epoch, start in read_epochs(file))
    elif name in names.OFFSET_CHECKPOINTS:
        for (topic, partition), offset in read_offsets(file).items():
            yield f"topic: {topic} partition: {partition} offset: {offset}"
    else:
        found.append(f"Ignoring unknown file {file}")
    if problems is None:
        yield from found


# -- .log ----------------------------------------------------------------------------------------------------


def _dump_log(
    file: str, deep: bool, contents: bool, skip_metadata: bool, max_bytes: int, problems: list[str]
) -> Iterator[str]:
    yield f"Log starting offset: {names.offset_of(os.path.basename(file)) or 0}"
    gaps: list[str] = []
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = min(os.fstat(fd).st_size, max_bytes)
        valid = 0
        last_offset = -1
        try:
            for position, header in headers(fd, 0, size):
                batch = os.pread(fd, header.size, position)
                yield _batch_line(header, batch, position)
                if deep:
                    records = decode_any(batch, check_crc=False)[1]
                    for record, more in zip(records, _more(header, batch, records), strict=True):
                        if last_offset not in (-1, record.offset - 1):
                            gaps.append(f"  {last_offset} is followed by {record.offset}")
                        last_offset = record.offset
                        yield _record_line(header, record, more, contents, skip_metadata)
                valid = position + header.size
        except RecordsError as error:
            problems.append(f"{file}: {error}")
        if size > valid and max_bytes >= ALL_BYTES:
            yield f"Found {size - valid} invalid bytes at the end of {os.path.basename(file)}"
    finally:
        os.close(fd)
    if gaps:
        problems += [f"Non-consecutive offsets in {os.path.abspath(file)}", *gaps]


def _batch_line(header: BatchHeader, batch: bytes, position: int) -> str:
    horizon = _optional(header.delete_horizon)
    start = f"offset: {header.last_offset}"
    if header.magic == MAGIC:
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
            f"isControl: {_bool(header.is_control)} deleteHorizonMs: {horizon}"
        )
    return (
        f"{start} position: {position} {_timestamp_type(header)}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {header.codec.name.lower()} crc: {header.crc} "
        f"isvalid: {_bool(is_valid(batch, header))}"
    )


def is_valid(batch: bytes, header: BatchHeader) -> bool:
    """Return whether the checksum is right."""
    try:
        verify_any_crc(batch, 0, header)
    except RecordsError:
        return False
    return True


def _record_line(header: BatchHeader, record: Record, more: str, contents: bool, skip_metadata: bool) -> str:
    parts = []
    if not skip_metadata:
        parts.append(
            f"offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)}{more}"
        )
    if contents and not header.is_control:
        if record.key is not None:
            parts.append(f"key: {record.key.decode(errors='replace')}")
        if record.value is not None:
            parts.append(f"payload: {record.value.decode(errors='replace')}")
    return f"| {' '.join(parts)}" if parts else ""


def _more(header: BatchHeader, batch: bytes, records: list[Record]) -> Iterator[str]:
    """Return text about a record's fields that some formats lack."""
    if header.magic < MAGIC:
        entries: list[tuple[int, BatchHeader]] = [(0, header)]
        data: Any = batch
        if header.records_count == message_set.UNKNOWN_COUNT:
            data, entries = message_set.entries_within(batch, 0, header)
        for position, entry in entries:
            valid = is_valid(data[position : position + entry.size], entry)
            # The brace is Kafka's.
            yield f" isValid: {_bool(valid)} crc: {entry.crc}}}"
        return
    for record in records:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & SEQUENCE_MASK
        keys = ",".join(key for key, _ in record.headers)
        text = f" sequence: {sequence} headerKeys: [{keys}]"
        yield text + _control(batch, record) if header.is_control else text


def _control(batch: bytes, record: Record) -> str:
    marker = parse_marker(memoryview(batch))
    if marker is None:
        kind = parse_control_type(record.key)
        return f" controlType: {kind.name}({kind.value})"
    return f" endTxnMarker: {'ABORT' if marker.aborted else 'COMMIT'} coordinatorEpoch: {marker.coordinator_epoch}"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _timestamp_type(header: BatchHeader) -> str:
    return ("NoTimestampType", "CreateTime", "LogAppendTime")[timestamp_type(header) + 1]


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


# -- indexes -------------------------------------------------------------------------------------------------


def _read(file: str) -> bytes:
    with open(file, "rb") as data:
        return data.read()


def offset_index_entries(file: str) -> list[tuple[int, int]]:
    """Return (relative offset, position) of each entry of a `.index` file."""
    return offset_rows(_read(file))


def time_index_entries(file: str) -> list[tuple[int, int]]:
    """Return (timestamp, relative offset) of each entry of a `.timeindex` file."""
    return time_rows(_read(file))


def _dump_index(file: str, verify_only: bool, sanity_only: bool, problems: list[str]) -> Iterator[str]:
    base = names.offset_of(os.path.basename(file)) or 0
    data = _read(file)
    rows = offset_rows(data)
    if not rows:
        yield f"{file} is empty."
        return
    if sanity_only:
        yield from _sanity(file, len(data) % OFFSET_ENTRY.size == 0 and rows[-1][0] >= 0, problems)
        return
    mismatches: list[str] = []
    fd = os.open(file.removesuffix(names.INDEX) + names.LOG, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(fd).st_size
        for relative, position in rows:
            last = _last_offset_at(fd, position, end)
            if last != base + relative:
                mismatches.append(f"  Index offset: {base + relative}, log offset: {last}")
            if not verify_only:
                yield f"offset: {base + relative} position: {position}"
    finally:
        os.close(fd)
    if mismatches:
        problems += [f"Mismatches in :{os.path.abspath(file)}", *mismatches]


def _last_offset_at(fd: int, position: int, end: int) -> int:
    if position < 0:
        return -1
    try:
        return next((header.last_offset for _, header in headers(fd, position, end)), -1)
    except RecordsError:
        return -1


def _sanity(file: str, sane: bool, problems: list[str]) -> Iterator[str]:
    if sane:
        yield f"{file} passed sanity check."
    else:
        problems.append(f"{file} is corrupt")


def _dump_time_index(file: str, verify_only: bool, sanity_only: bool, problems: list[str]) -> Iterator[str]:
    base = names.offset_of(os.path.basename(file)) or 0
    data = _read(file)
    rows = time_rows(data)
    if sanity_only:
        ends_well = not rows or (rows[-1][0] >= rows[0][0] and rows[-1][1] >= 0)
        sane = len(data) % TIME_ENTRY.size == 0 and ends_well
        yield from _sanity(file, sane, problems)
        return
    stem = file.removesuffix(names.TIME_INDEX)
    positions = offset_index_entries(stem + names.INDEX)
    indexed = [entry for entry, _ in positions]
    full = os.path.abspath(file)
    mismatched: list[str] = []
    out_of_order: list[str] = []
    missing: list[str] = []
    previous = -1
    fd = os.open(stem + names.LOG, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for timestamp, relative in rows:
            offset = base + relative
            before = bisect_right(indexed, relative)
            found = _batch_reaching(fd, positions[before - 1][1] if before else 0, offset)
            if found is None or found[0] != offset:
                missing.append(f"Indexed offset: {offset}, found log offset: {found[0] if found else -1}")
            else:
                if found[1] != timestamp:
                    mismatched.append(f"  Index timestamp: {timestamp}, log timestamp: {found[1]}")
                if previous >= timestamp:
                    out_of_order.append(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")
            if not verify_only:
                yield f"timestamp: {timestamp} offset: {offset}"
            previous = timestamp
    finally:
        os.close(fd)
    if mismatched:
        problems += [f"Found timestamp mismatch in :{full}", *mismatched]
    if out_of_order:
        problems += [f"Found out of order timestamp in :{full}", *out_of_order]
    if missing:
        problems += ["The following indexed offsets are not found in the log.", *missing]


def _batch_reaching(fd: int, position: int, offset: int) -> tuple[int, int] | None:
    """Return `(last offset, largest record timestamp)` of the first batch that reaches `offset`."""
    if position < 0:
        return None
    try:
        for at, header in headers(fd, position, os.fstat(fd).st_size):
            if header.last_offset >= offset:
                if header.is_log_append_time:
                    return header.last_offset, header.max_timestamp
                records = decode_any(os.pread(fd, header.size, at), check_crc=False)[1]
                return header.last_offset, max((record.timestamp for record in records), default=-1)
    except RecordsError:
        return None
    return None


def _dump_transaction_index(file: str) -> Iterator[str]:
    for row in TransactionIndex(file, names.offset_of(os.path.basename(file)) or 0).items():
        yield (
            f"version: 0 producerId: {row.producer_id} firstOffset: {row.first_offset} "
            f"lastOffset: {row.last_offset} lastStableOffset: {row.last_stable_offset}"
        )


# -- .snapshot -----------------------------------------------------------------------------------------------


def _dump_snapshot(file: str, problems: list[str]) -> Iterator[str]:
    try:
        rows = read(file)
    except CorruptSnapshotError as error:
        problems.append(str(error))
        return
    for row in rows:
        transaction = _optional(row.transaction_first_offset if row.transaction_first_offset >= 0 else None)
        line = (
            f"producerId: {row.producer_id} producerEpoch: {row.epoch} coordinatorEpoch: {row.coordinator_epoch} "
            f"currentTxnFirstOffset: {transaction} lastTimestamp: {row.timestamp} "
        )
        if row.last_offset >= 0:
            batch = BatchMetadata(row.last_sequence, row.last_offset, row.offset_delta, row.timestamp)
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
                f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        yield line

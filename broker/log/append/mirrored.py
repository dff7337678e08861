"""Checks of what a mirror sends to a topic that keeps offsets: whole batches that state theirs.

A leader gives each produced record the next offset. A topic with `kafkalog.mirror.source` takes batches as they are in
the source instead, with gaps where the source has no records to mirror: compacted ones, those of aborted transactions,
and transaction markers. So it holds what a follower of the source would hold, except for transactions: a mirror sends
committed records only, without their producers. A producer id of the source means nothing here, and an open transaction
would keep consumers waiting for an end that nobody writes.

Clients are not trusted as a leader is: each batch passes the checks of a produced one, except that its offsets may have
gaps, its key may be missing, and its timestamps may be those of the source's broker.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.log.append.record_errors import as_protocol_error
from broker.log.append.validation import check_size
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import InvalidRecordError
from kafkalog.records.batch import MAGIC, BatchHeader, iter_headers, verify_crc
from kafkalog.records.errors import RecordsError
from kafkalog.records.validate import check_batch

LARGEST_OFFSET = (1 << 62) - 1
"""No batch may go beyond this offset, so that a partition cannot be led to where offsets end."""

MOST_BATCHES = 1000
"""Batches of one request and partition. They are appended at once: a thousand hold the event loop for some 8 ms."""


class MirroredRecords(NamedTuple):
    """Whole batches that were checked, in order."""

    records: memoryview
    batches: tuple[tuple[int, BatchHeader], ...]
    """Of each batch its position in `records`, and its header."""


def prepare_mirrored(records: memoryview | None, config: LogConfig, label: str) -> MirroredRecords:
    """Check batches that state their offsets; change nothing.

    Raises:
        KafkaError: They are refused; the subclass is the error that the client gets.
    """
    found: list[tuple[int, BatchHeader]] = []
    size, end, after = 0 if records is None else len(records), 0, 0
    try:
        for position, header in iter_headers(records or b""):
            check_size(header.size, config, label)
            _check_header(header, after, label)
            _check_records(records, position, header)
            found.append((position, header))
            if len(found) > MOST_BATCHES:
                raise InvalidRecordError(f"More than {MOST_BATCHES} batches sent to {label} with their offsets at once")
            end, after = position + header.size, header.next_offset
    except RecordsError as error:
        raise as_protocol_error(error, label) from error
    if records is None or not found or end != size:
        raise InvalidRecordError(f"{size} bytes sent to {label} with their offsets are not one or more whole batches")
    return MirroredRecords(records, tuple(found))


def _check_header(header: BatchHeader, after: int, label: str) -> None:
    if header.magic != MAGIC:
        raise InvalidRecordError(f"A batch of message format v{header.magic} sent to {label} with its offsets")
    if header.is_control or header.is_transactional or header.has_producer_id:
        raise InvalidRecordError(f"A batch sent to {label} with its offsets is part of a transaction, or a producer's")
    if header.base_offset < after or not 0 < header.records_count <= header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"A batch sent to {label} states {header.records_count} records with the offsets {header.base_offset} to "
            f"{header.last_offset}, after offset {after - 1}"
        )
    if header.last_offset > LARGEST_OFFSET:
        raise InvalidRecordError(f"Offset {header.last_offset} in a batch sent to {label} is larger than any may be")


def _check_records(records: memoryview | None, position: int, header: BatchHeader) -> None:
    assert records is not None
    if header.last_offset_delta == header.records_count - 1:
        check_batch(records, position)
        return
    # Batches with gaps are rare, and numpy takes a while to import.
    from kafkalog.records import checking

    verify_crc(records, position, header)
    checking.load()
    batch = records[position : position + header.size]
    found = checking.scan(batch, 0, header.base_offset)
    if found.error is not None:
        raise found.error
    for _, error in checking.check(batch, found.table, checking.Counts()):
        raise error

"""Helpers of tests of the log cleaner: a log that is cleaned at once, and what a consumer reads from it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from broker.log.append.validation import Origin
from broker.log.cleaner.clean import LogCleaning
from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.job import CleaningAbortedError, CleaningStats, facts_of, make_job
from broker.log.cleaner.selection import examine
from broker.log.cleaner.throttle import Throttle
from broker.log.files.file_ops import OS, FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.producer_state.control_batches import parse_marker
from broker.log.resources import LogResources
from broker.log.segment.segment import Segment
from kafkalog.records import cleaning
from kafkalog.records.any_format import decode_any, iter_any_headers
from kafkalog.records.batch import BatchHeader, Record, encode_batch
from kafkalog.records.compression import Codec
from tests.broker.log.support import NOW, marker

SMALL = CleanerConfig(io_buffer_size=8192, dedupe_buffer_size=1 << 16)


def keyed(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp: int = NOW,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> memoryview:
    """Return a produced batch of these keys and values."""
    records = [Record(index, timestamp, key, value) for index, (key, value) in enumerate(pairs)]
    known = producer_id >= 0
    return memoryview(
        encode_batch(
            records, codec=codec, producer_id=producer_id, producer_epoch=producer_epoch if known else -1,
            base_sequence=sequence if known else -1, is_transactional=transactional,
        )
    )  # fmt: skip


def clean(
    log: Log,
    *,
    now_ms: int = NOW,
    config: CleanerConfig = SMALL,
    ops: FileOps = OS,
    functions: cleaning.Functions | None = None,
    flushed: Callable[[], None] = lambda: None,
) -> CleaningStats | None:
    """Clean the log as a cleaner thread does, at any dirty ratio; return None if nothing can be cleaned.

    `flushed` is called when the recovery points must be written.
    """
    facts = facts_of(log)
    cleanable = examine(facts, now_ms)
    if cleanable.cleanable_bytes == 0:
        return None
    job = make_job(log, cleanable, now_ms, lambda: False)
    log.flush(job.first_uncleanable_offset)
    flushed()

    def swap(new: Sequence[Segment], old: Sequence[Segment]) -> None:
        if not log.replace_segments(new, old, now_ms):
            raise CleaningAbortedError("its segments have changed")
        # As soon as may be, as a worker does beside it.
        log.remove_deleted(now_ms)
        ops.fsync_dir(str(log.dir))

    resources = LogResources(ops)
    throttle = Throttle(config.io_max_bytes_per_second, resources.seconds)
    run = LogCleaning(job, config, throttle, swap, sleep=time.sleep, resources=resources, functions=functions)
    log.cleaned_offset = run.run()
    return dataclasses.replace(run.stats)


def clean_whole(log: Log, *, now_ms: int = NOW, ops: FileOps = OS) -> CleaningStats | None:
    """Roll, so that everything may be cleaned, and clean."""
    log.high_watermark = log.log_end_offset
    log.roll(now_ms)
    return clean(log, now_ms=now_ms, ops=ops)


def batches_of(log: Log) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Return every batch of the log; check checksums and the order of offsets."""
    offset = log.log_start_offset
    previous = -1
    while offset < log.log_end_offset:
        data = log.read(offset, 700).read()
        if not data:
            return
        for position, _ in iter_any_headers(data):
            header, records = decode_any(data, position)
            assert header.base_offset > previous
            previous = header.last_offset
            yield header, records
        assert previous >= offset
        offset = previous + 1


def records_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of every record except markers."""
    return [
        (record.offset, record.key, record.value)
        for header, records in batches_of(log)
        for record in records
        if not header.is_control
    ]


def table_of(log: Log) -> dict[bytes | None, bytes]:
    """Return the latest value of each key that was not deleted, as a consumer of committed records sees it.

    Aborted transactions are left out as clients do it: from the first offset on, until the producer's marker.
    """
    end = log.last_stable_offset
    coming = sorted(log.aborted_transactions(log.log_start_offset, end), key=lambda row: row.first_offset)
    aborted: set[int] = set()
    table: dict[bytes | None, bytes] = {}
    for header, records in batches_of(log):
        if header.base_offset >= end:
            break
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            data = encode_batch(records, is_control=True, base_offset=header.base_offset) if records else b""
            marker = parse_marker(memoryview(data)) if data else None
            if marker is not None and marker.aborted:
                aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborted:
            continue
        for record in records:
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
    return table


COMPACT = LogConfig(cleanup_policy=("compact",), segment_bytes=2000, index_interval_bytes=200, delete_retention_ms=1000)


def append(log: Log, *pairs: tuple[bytes | None, bytes | None], **options: object) -> int:
    """Append one batch and let consumers see it; its first offset."""
    transactional = bool(options.get("transactional"))
    info = log.append_batch(
        keyed(pairs, **options),  # type: ignore[arg-type]
        leader_epoch=0, now_ms=NOW, in_transaction=transactional, origin=Origin.COORDINATOR,
    )  # fmt: skip
    log.high_watermark = log.log_end_offset
    return info.first_offset


def end_transaction(log: Log, producer: int, *, commit: bool) -> int:
    info = log.append_batch(marker(producer, commit=commit), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    log.high_watermark = log.log_end_offset
    return info.first_offset


def offsets(log: Log) -> list[int]:
    return [offset for offset, _, _ in records_of(log)]

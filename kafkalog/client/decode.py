"""From fetched bytes to a consumer's records: what was aborted and what controls transactions is left out."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.records.batch import decode_batch, iter_headers
from kafkalog.records.control import ControlRecordType, parse_control_type

from .config import ClientConfig
from .fetcher import FetchedChunk
from .types import READ_COMMITTED, ConsumerRecord, TopicPartition


def decode_chunk(
    chunk: FetchedChunk, tp: TopicPartition, offset: int, config: ClientConfig
) -> Iterator[tuple[list[ConsumerRecord], int]]:
    """The records from ``offset`` on, batch by batch, each with the offset after the batch. Raises RecordsError.

    To read_committed, the transactional batches of a producer are aborted from the first offset that the broker names
    up to the producer's next ABORT marker (KIP-98).
    """
    committed_only = config.isolation_level == READ_COMMITTED
    to_come = sorted(chunk.aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    for pos, header in iter_headers(chunk.records):
        if header.last_offset < offset:
            continue
        if committed_only:
            while to_come and to_come[-1][1] <= header.last_offset:
                aborting.add(to_come.pop()[0])
        records: list[ConsumerRecord] = []
        if header.is_control:
            if header.producer_id in aborting:
                _, markers = decode_batch(chunk.records, pos, check_crc=config.check_crcs)
                if any(parse_control_type(marker.key) is ControlRecordType.ABORT for marker in markers):
                    aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            _, decoded = decode_batch(chunk.records, pos, check_crc=config.check_crcs)
            timestamp_type = int(header.is_log_append_time)
            records = [
                ConsumerRecord(
                    tp.topic,
                    tp.partition,
                    record.offset,
                    record.timestamp,
                    timestamp_type,
                    record.key,
                    record.value,
                    record.headers,
                )
                for record in decoded
                if record.offset >= offset
            ]
        yield records, header.next_offset

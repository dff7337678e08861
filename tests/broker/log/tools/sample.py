"""A log with everything that a dump tells apart."""

from __future__ import annotations

from pathlib import Path

from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.log_config import LogConfig
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from tests.broker.log.support import NOW, batch, marker, open_log


def sample(directory: Path) -> Log:
    """A closed log of everything that a dump tells apart, in two segments."""
    log = open_log(directory, LogConfig(index_interval_bytes=200))
    for codec in Codec:
        log.append_batch(batch(5, codec=codec, key=b"key", step=3), leader_epoch=codec, now_ms=NOW)
    shapes = [
        Record(0, NOW + 9, None, None, ()),
        Record(1, NOW + 7, b"", b"", (("one", b"1"), ("two", None))),
        Record(2, NOW + 8, "schlüssel".encode(), "wert 頭".encode(), ()),
    ]
    log.append_batch(memoryview(encode_batch(shapes)), leader_epoch=5, now_ms=NOW)
    log.config = log.config.with_changes(message_timestamp_type="LogAppendTime")
    log.append_batch(batch(2), leader_epoch=5, now_ms=NOW + 100)
    log.config = log.config.with_changes(message_timestamp_type="CreateTime")
    log.roll(NOW)
    for producer, commit in ((11, False), (12, True), (12, False)):
        entry = log.producers.producers.get(producer)
        data = batch(
            3, producer_id=producer, producer_epoch=2, base_sequence=entry.next_sequence if entry else 2**31 - 2,
            is_transactional=True, timestamp=NOW + 200,
        )  # fmt: skip
        log.append_batch(data, leader_epoch=6, now_ms=NOW, in_transaction=True)
        log.append_batch(
            marker(producer, epoch=2, commit=commit, coordinator_epoch=4),
            leader_epoch=6, now_ms=NOW, origin=Origin.COORDINATOR,
        )  # fmt: skip
    log.append_batch(
        batch(1, producer_id=11, producer_epoch=2, base_sequence=1, is_transactional=True),
        leader_epoch=6, now_ms=NOW, in_transaction=True,
    )  # fmt: skip
    log.close()
    return log

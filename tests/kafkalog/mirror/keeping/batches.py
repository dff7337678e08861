"""Batches that say at which offsets they belong, or do not."""

from __future__ import annotations

from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.records.batch import Record, encode_batch

STEP = 5


def batch(first: int, stated: bool) -> MirroredBatch:
    records = [Record(first + at, 1000, None, b"%d" % (first + at)) for at in range(STEP)]
    if not stated:
        records = [record._replace(offset=at) for at, record in enumerate(records)]
    data = encode_batch(records, base_offset=first if stated else 0)
    return MirroredBatch(data, ((first, STEP),), False)

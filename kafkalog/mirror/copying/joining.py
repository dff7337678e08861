"""Join small batches, so that a request carries more than a few records of a partition.

A Produce request has one batch of each partition. A producer of the source that does not wait for more records writes
batches of one record, faster than a mirror could send them one by one. So small batches that were fetched together are
decoded, and encoded as one, with the same codec. Large ones pass as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkalog.mirror.copying.batches import MirroredBatch
from kafkalog.records.batch import Record, decode_batch, encode_batch, read_header

SMALL_BYTES = 4 << 10
"""Smaller batches are joined."""
JOINED_BYTES = 64 << 10
"""How large a joined batch becomes, at most; counted before its records share one header."""


def joined(found: Iterable[tuple[MirroredBatch | None, int]], most: int) -> Iterator[tuple[MirroredBatch | None, int]]:
    """Yield batches and positions as `batches` does, with small neighbours in one batch of at most `most` bytes."""
    waiting: list[tuple[MirroredBatch, int]] = []
    size = position = codec = 0
    for batch, next_offset in found:
        if batch is None:
            if waiting:
                position = next_offset
            else:
                yield None, next_offset
            continue
        header = read_header(batch.data)
        if waiting and (header.codec != codec or size + header.size > most or header.size >= SMALL_BYTES):
            yield from _at_most(waiting, codec, position, most)
            waiting, size = [], 0
        if header.size >= SMALL_BYTES:
            yield batch, next_offset
            continue
        waiting.append((batch, next_offset))
        size += header.size
        position, codec = next_offset, header.codec
    if waiting:
        yield from _at_most(waiting, codec, position, most)


def _at_most(
    waiting: Sequence[tuple[MirroredBatch, int]], codec: int, position: int, most: int
) -> Iterator[tuple[MirroredBatch, int]]:
    """Yield one batch, or those that it would join, if it were larger than `most`.

    In one batch, offsets and times are farther from the first ones, and take more bytes.
    """
    one = _one_of([batch for batch, _ in waiting], codec)
    if len(one.data) <= most:
        yield one, position
        return
    yield from waiting[:-1]
    yield waiting[-1][0], position


def _one_of(batches: Sequence[MirroredBatch], codec: int) -> MirroredBatch:
    if len(batches) == 1:
        return batches[0]
    records: list[Record] = []
    stretches: list[tuple[int, int]] = []
    for batch in batches:
        # Its checksum was verified, or computed, before.
        _, found = decode_batch(batch.data, check_crc=False)
        records += [Record(number, *record[1:]) for number, record in enumerate(found, len(records))]
        for first, count in batch.offsets:
            if stretches and first == sum(stretches[-1]):
                stretches[-1] = stretches[-1][0], stretches[-1][1] + count
            else:
                stretches.append((first, count))
    return MirroredBatch(encode_batch(records, codec=codec), tuple(stretches), True)

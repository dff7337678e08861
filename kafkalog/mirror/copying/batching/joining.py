"""Join small batches, so that a request carries more than a few records of a partition.

A Produce request has one batch of each partition. A producer of the source that does not wait for more records writes
batches of one record, faster than a mirror could send them one by one. So small batches that were fetched together are
decoded, and encoded as one, with the same codec. Large ones pass as they are, and so do those that expand to more than
a joined batch may hold, and those that cannot be decoded: the target judges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.records.batch import Record, decode_records, encode_batch, read_header, records_section
from kafkalog.records.errors import RecordsError

SMALL_BYTES = 4 << 10
"""Smaller batches are joined."""
JOINED_BYTES = 64 << 10
"""The largest size of a joined batch; counted before its records share one header."""
EXPANDED_BYTES = 1 << 20
"""The most bytes that the records of a joined batch take uncompressed.

A few KiB of zstd may state that they are 100 MiB, and a record of seven bytes takes hundreds once it is decoded."""


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
            yield from _as_few(waiting, codec, position, most)
            waiting, size = [], 0
        if header.size >= SMALL_BYTES:
            yield batch, next_offset
            continue
        waiting.append((batch, next_offset))
        size += header.size
        position, codec = next_offset, header.codec
    if waiting:
        yield from _as_few(waiting, codec, position, most)


def first_joined(waiting: Iterable[bytearray], most: int) -> tuple[bytearray, int]:
    """Join the first batch with as many of those after it as may be; return it, and of how many batches it is made.

    `most` is as in `joined`; with 0 the first batch comes alone.
    """
    small: list[tuple[MirroredBatch, int]] = []
    size = codec = 0
    for data in waiting:
        header = read_header(data)
        size += header.size
        if small and (header.codec != codec or size > most or header.size >= SMALL_BYTES):
            break
        codec = header.codec
        small.append((MirroredBatch(data, (), False), 0))
        if header.size >= SMALL_BYTES:
            break
    group = next(_groups(small))
    made = _at_most(group, codec, most)
    return made[0][0].data, len(group) if len(made) == 1 else 1


class _Decoded(NamedTuple):
    """A batch to join, the position after it, and its records."""

    batch: MirroredBatch
    position: int
    records: list[Record]
    size: int
    """Bytes of its records, uncompressed."""


def _as_few(
    waiting: Sequence[tuple[MirroredBatch, int]], codec: int, position: int, most: int
) -> Iterator[tuple[MirroredBatch, int]]:
    """Yield what waits in as few batches as its records allow; the last one has the position `position`."""
    made = [each for group in _groups(waiting) for each in _at_most(group, codec, most)]
    yield from made[:-1]
    yield made[-1][0], position


def _groups(waiting: Sequence[tuple[MirroredBatch, int]]) -> Iterator[list[_Decoded]]:
    """Decode batches, and yield those together that may become one. A lone one need not be decoded."""
    group: list[_Decoded] = []
    room = EXPANDED_BYTES
    for batch, position in waiting if len(waiting) > 1 else ():
        each = _decoded(batch, position, room)
        if each is None and group:
            yield group
            group, room = [], EXPANDED_BYTES
            each = _decoded(batch, position, room)
        if each is None:
            yield [_Decoded(batch, position, [], 0)]
        else:
            group.append(each)
            room -= each.size
    if len(waiting) == 1:
        yield [_Decoded(*waiting[0], [], 0)]
    if group:
        yield group


def _decoded(batch: MirroredBatch, position: int, room: int) -> _Decoded | None:
    """Decode a batch; return None where it takes more than `room` bytes uncompressed, or cannot be decoded."""
    # Its checksum was verified, or computed, before.
    try:
        header = read_header(batch.data)
        section, start, end = records_section(batch.data, 0, header, room)
        if end - start > room:
            return None
        return _Decoded(batch, position, decode_records(section, start, end, header), end - start)
    except RecordsError:
        return None


def _at_most(group: Sequence[_Decoded], codec: int, most: int) -> list[tuple[MirroredBatch, int]]:
    """Return one batch, or those that it would join, if it were larger than `most`.

    In one batch, offsets and times are farther from the first ones, and take more bytes.
    """
    if len(group) > 1:
        one = _one_of(group, codec)
        if len(one.data) <= most:
            return [(one, group[-1].position)]
    return [(each.batch, each.position) for each in group]


def _one_of(group: Sequence[_Decoded], codec: int) -> MirroredBatch:
    records: list[Record] = []
    stretches: list[tuple[int, int]] = []
    for each in group:
        records += [Record(number, *record[1:]) for number, record in enumerate(each.records, len(records))]
        for first, count in each.batch.offsets:
            if stretches and first == sum(stretches[-1]):
                stretches[-1] = stretches[-1][0], stretches[-1][1] + count
            else:
                stretches.append((first, count))
    return MirroredBatch(encode_batch(records, codec=codec), tuple(stretches), True, joined=True)

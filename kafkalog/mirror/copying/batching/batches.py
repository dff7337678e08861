"""From fetched bytes to batches that a producer can send: as they are where that is possible.

A record batch keeps its bytes, compressed as they are. Only its header is written anew: base offset and leader epoch,
which the target's leader sets, and the source's producer, in whose place the mirror's stands. Nothing is decoded. What
aborted transactions wrote is left out, as are transaction markers.

These batches are written anew, with the same codec, because brokers refuse them from producers:

- batches with gaps, as compaction leaves them, and those with a delete horizon (KIP-534);
- batches with LogAppendTime: their records get that time as CreateTime;
- messages of the formats v0 and v1;
- a batch that begins before the position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from kafkalog.client.fetch.decode import naming_bound
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.records.any_format import decode_any, iter_any_headers
from kafkalog.records.batch import (
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    assign_offsets,
    decode_batch,
    encode_batch,
    set_producer,
    verify_crc,
)
from kafkalog.records.compression import DEFAULT_MAX_SIZE
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import RecordsError
from kafkalog.records.renumbering import renumber


class MirroredBatch(NamedTuple):
    """A batch to send."""

    data: bytearray
    """Its bytes, without a producer, with the base offset 0, or that of the source if offsets are kept."""
    offsets: tuple[tuple[int, int], ...]
    """The offsets that its records have in the source: for each stretch without gaps the first one, and the count.

    Of a batch that passes with gaps, because offsets are kept, there is one stretch, from its first offset on."""
    decoded: bool
    """True if it had to be written anew."""
    joined: bool = False
    """True if it has several batches of the source."""

    @property
    def next_offset(self) -> int:
        """The offset after its last record in the source; of a batch with gaps, it is not beyond that."""
        return sum(self.offsets[-1])


def batches(
    fetched: FetchedRecords,
    offset: int,
    *,
    check_crcs: bool = True,
    keep: bool = False,
    max_size: int = DEFAULT_MAX_SIZE,
) -> Iterator[tuple[MirroredBatch | None, int]]:
    """Yield what to send of the batches from `offset` on, each with the position after it; None: nothing to send.

    `fetched` comes from a fetch with `isolation.level=read_committed`. With `keep` batches keep their offsets, and pass
    with gaps and with the time of appending. A batch that is written anew expands to at most `max_size` bytes.

    Raises:
        RecordsError: A batch is damaged, or expands to more.
    """
    to_come = sorted(fetched.aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    records = fetched.records
    for pos, header in iter_any_headers(records):
        if header.last_offset < offset:
            continue
        while to_come and to_come[-1][1] <= header.last_offset:
            aborting.add(to_come.pop()[0])
        made: MirroredBatch | None = None
        if header.is_control:
            if header.producer_id in aborting and _is_abort(records, pos, check_crcs):
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            pass
        elif passes(header, offset) or (keep and passes_with_offsets(header, offset)):
            if check_crcs:
                verify_crc(records, pos, header)
            made = _restamped(records, pos, header, header.base_offset if keep else 0)
        else:
            with naming_bound():
                made = _encoded(records, pos, header, offset, check_crcs, keep, max_size)
        yield made, header.next_offset


class WholeBatches:
    """Iterate over what `batches` yields of one fetch after the other, each with its position, up to a damaged batch.

    Then `damage` is the error that tells of it. So a caller that gathers batches gets all of those before the damage.
    """

    def __init__(
        self,
        fetched: Iterable[tuple[FetchedRecords, int]],
        *,
        check_crcs: bool = True,
        keep: bool = False,
        max_size: int = DEFAULT_MAX_SIZE,
    ) -> None:
        made = partial(batches, check_crcs=check_crcs, keep=keep, max_size=max_size)
        self._made = chain.from_iterable(made(*each) for each in fetched)
        self.damage: RecordsError | None = None

    def __iter__(self) -> Iterator[tuple[MirroredBatch | None, int]]:
        """Yield what to send, each with the position after it; None: nothing to send."""
        try:
            yield from self._made
        except RecordsError as error:
            self.damage = error


def passes(header: BatchHeader, offset: int) -> bool:
    """Tell whether a broker takes the batch from a producer with its records as they are."""
    return (
        header.magic == MAGIC
        and header.base_offset >= offset
        and header.records_count > 0
        and header.last_offset_delta == header.records_count - 1
        and not header.is_log_append_time
        and not header.has_delete_horizon
    )


def passes_with_offsets(header: BatchHeader, offset: int) -> bool:
    """Tell whether a target takes the batch as it is, if it takes the offsets that the batch states."""
    return header.magic == MAGIC and header.base_offset >= offset and header.records_count > 0


def _is_abort(records: memoryview, pos: int, check_crcs: bool) -> bool:
    _, markers = decode_batch(records, pos, check_crc=check_crcs)
    return any(parse_control_type(marker.key) is ControlRecordType.ABORT for marker in markers)


def _restamped(records: memoryview, pos: int, header: BatchHeader, base_offset: int) -> MirroredBatch:
    data = bytearray(records[pos : pos + header.size])
    assign_offsets(data, 0, base_offset, NO_PARTITION_LEADER_EPOCH)
    if header.has_producer_id or header.is_transactional:
        set_producer(data, 0, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return MirroredBatch(data, ((header.base_offset, header.records_count),), False)


def _encoded(
    records: memoryview, pos: int, header: BatchHeader, offset: int, check_crcs: bool, keep: bool, max_size: int
) -> MirroredBatch | None:
    if header.magic == MAGIC:
        if check_crcs:
            verify_crc(records, pos, header)
        made = renumber(records, pos, header, offset, keep_offsets=keep, max_size=max_size)
        return None if made is None else MirroredBatch(made.data, made.stretches, True)
    _, found = decode_any(records, pos, check_crc=check_crcs, max_size=max_size)
    wanted = [record for record in found if record.offset >= offset]
    if not wanted:
        return None
    if keep:
        data = encode_batch(wanted, codec=header.codec, base_offset=wanted[0].offset)
        return MirroredBatch(data, _stretches(wanted), True)
    numbered = [Record(number, *record[1:]) for number, record in enumerate(wanted)]
    return MirroredBatch(encode_batch(numbered, codec=header.codec), _stretches(wanted), True)


def _stretches(records: list[Record]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for record in records:
        if found and record.offset == sum(found[-1]):
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((record.offset, 1))
    return tuple(found)

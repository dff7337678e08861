"""Hold one partition's fetched batches until poll() has returned all of their records, or Arrow record batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.fetcher.fetch_position import NO_EPOCH, FetchPosition
from kafkalog.client.fetch.decode import decode_batches, naming_bound
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.types import READ_COMMITTED, ConsumerRecord, TopicPartition
from kafkalog.protocol.schema import ZERO_UUID
from kafkalog.records.any_format import iter_any_headers
from kafkalog.records.batch import CODEC_MASK, LOG_OVERHEAD, MAGIC, MAGIC_AT, iter_headers
from kafkalog.records.errors import RecordsError, UnsupportedMagicError
from kafkalog.records.legacy.convert import upgraded, without_private_flag

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = Struct(">i")
_EPOCH_AT = LOG_OVERHEAD
_MAX_OFFSET = (1 << 63) - 1
_NOTHING = memoryview(b"")
CONVERTED_BYTES = 16 << 20
"""So many bytes of old messages, or one more batch of them, are converted for Arrow at a time: they may expand far."""
TOGETHER_BYTES = 1 << 20
"""The most bytes of old messages without compression that are converted by one call."""


class _Piece(NamedTuple):
    """Records decoded to Arrow, the offset after them, and the bytes that the next piece comes from."""

    batch: pa.RecordBatch | None
    after: int
    left: _Left


class _Left(NamedTuple):
    """Bytes that are still to be decoded."""

    fetched: memoryview
    """As they were fetched."""
    converted: memoryview = _NOTHING
    """Batches of v2 before them, to which messages of formats v0 and v1 were converted."""


class CompletedFetch:
    """A fetch of `tp` that began at offset `start`.

    `next` is the position after all of its records. `topic_id` is the id by which the topic was fetched, zero where
    that was by its name. `columns` are the Arrow columns it was decoded to, or None.

    Attributes:
        broken: Whether an error came after records that were handed out: the rest must be fetched again.
        failure: The error that makes it end before the fetch does: the batch at `next` cannot be read. Of what is not
            decoded yet, only an error of the first batch is known.
    """

    def __init__(
        self,
        tp: TopicPartition,
        start: int,
        fetched: FetchedRecords,
        leader_epoch: int,
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        self.tp = tp
        self.start = start
        self.topic_id = topic_id
        self.columns: tuple[str, ...] | None = None
        self.broken = False
        self.failure: RecordsError | None = None
        self._fetched: FetchedRecords | None = fetched
        self._leader_epoch = leader_epoch
        self._records: Iterator[tuple[list[ConsumerRecord], FetchPosition]] | None = None
        self._left: list[ConsumerRecord] = []
        self._after = FetchPosition(start)
        self._config: ClientConfig | None = None
        self._piece: tuple[pa.RecordBatch, FetchPosition] | None = None
        self._offset = start
        """The offset at which the next piece begins."""
        self._left_bytes = _Left(_NOTHING)
        self.next = FetchPosition(fetched.next_offset(start), _last_epoch(fetched.records, leader_epoch))
        if self.next.offset <= start:
            try:
                next(iter_any_headers(fetched.records), None)
            except RecordsError as error:
                self.failure = error

    # Records

    def take(self, count: int, config: ClientConfig) -> tuple[list[ConsumerRecord], FetchPosition | None]:
        """Take at most `count` records; return them and the position after them (None: no record was left).

        Raises:
            RecordsError: The next bytes are not a record batch, and everything before them was taken.
        """
        if self._records is None:
            self._records = self._decode(config)
        taken: list[ConsumerRecord] = []
        position: FetchPosition | None = None
        while len(taken) < count:
            if not self._left:
                try:
                    found = next(self._records, None)
                except RecordsError:
                    if taken:
                        self.broken = True
                        return taken, position
                    raise
                if found is None:
                    break
                self._left, self._after = found
                self._left.reverse()
            while self._left and len(taken) < count:
                taken.append(self._left.pop())
            position = FetchPosition(taken[-1].offset + 1, self._after.epoch) if self._left else self._after
        return taken, position

    def _decode(self, config: ClientConfig) -> Iterator[tuple[list[ConsumerRecord], FetchPosition]]:
        assert self._fetched is not None
        for records, after, epoch in decode_batches(self._fetched, self.tp, self.start, config):
            yield records, FetchPosition(after, epoch)

    def take_fetched(self) -> FetchedRecords:
        """Take all of it as it was fetched; only where no record has been taken, and nothing was decoded to Arrow.

        Raises:
            RecordsError: It begins with bytes that are not a record batch.
        """
        assert self._fetched is not None
        if self.failure is not None:
            raise self.failure
        return self._fetched

    # Arrow

    def decode_arrow(self, columns: Sequence[str], config: ClientConfig) -> None:
        """Decode the first piece of it to Arrow. `take_arrow` decodes the others, each when its turn comes.

        A piece is as much as one call of the decoder expands. Zeros shrink to a 30,000th of their size, so all pieces
        of a fetch at once may be too much for the memory.
        """
        assert self._fetched is not None
        self.columns, self._config = tuple(columns), config
        self._left_bytes = _Left(self._fetched.records)
        self._decode_piece()

    def _decode_piece(self) -> None:
        """Decode the next piece, or that before bytes that are not a record batch; `take_arrow` then raises the error.

        The piece is None where no record is left.
        """
        try:
            piece = self._piece_of(self._left_bytes)
        except RecordsError as error:
            self.failure = error
            piece = self._sound_piece()
        self._left_bytes, self._offset = piece.left, piece.after
        self._piece = None if piece.batch is None else (piece.batch, FetchPosition(piece.after, self.next.epoch))
        if piece.batch is None or piece.after >= self.next.offset:
            # Nothing refers to the response's buffer any more, so the connection can use it again.
            self._left_bytes, self._fetched = _Left(_NOTHING), None

    def _piece_of(self, left: _Left) -> _Piece:
        """Decode the next piece of these bytes.

        Raises:
            RecordsError: Bytes are not a record batch.
        """
        from kafkalog.records.arrow import decode_arrow

        assert self._fetched is not None
        assert self._config is not None
        assert self.columns is not None
        aborted = self._fetched.aborted if self._config.isolation_level == READ_COMMITTED else ()
        offset = self._offset
        while True:
            is_converted = len(left.converted) > 0
            try:
                with naming_bound():
                    batch, after = decode_arrow(
                        left.converted if is_converted else left.fetched,
                        topic=self.tp.topic,
                        partition=self.tp.partition,
                        start=offset,
                        end=_MAX_OFFSET,
                        columns=self.columns,
                        aborted=aborted,
                        check_crc=self._config.check_crcs,
                        max_batch=self._config.max_batch_bytes,
                        converted=is_converted,
                    )
            except UnsupportedMagicError:
                if is_converted:
                    raise
                with naming_bound():
                    # Whether a record belongs to an aborted transaction depends on all markers before it.
                    most = _MAX_OFFSET if aborted else CONVERTED_BYTES
                    converted, rest = _modern(left.fetched, self._config.max_batch_bytes, most)
                if not converted:
                    return _Piece(None, offset, left)
                left = _Left(rest, converted)
                continue
            is_done = is_converted and after >= _end_of(left.converted)
            if is_done:
                left = _Left(left.fetched)
            if batch is not None or after >= self.next.offset or (after <= offset and not is_done):
                return _Piece(batch, max(after, offset), left)
            offset = max(after, offset)

    def _sound_piece(self) -> _Piece:
        """Decode the next piece of the longest part that can be decoded, and end the fetch where that part ends."""
        assert self._fetched is not None
        left = self._left_bytes
        is_converted = len(left.converted) > 0
        records = left.converted if is_converted else left.fetched
        ends = [0]
        with contextlib.suppress(RecordsError):
            ends.extend(at + header.size for at, header in iter_any_headers(records))
        found = _Piece(None, self._offset, _Left(_NOTHING))
        well, most = 0, len(ends) - 1
        while well < most:
            middle = (well + most + 1) // 2
            try:
                some = records[: ends[middle]]
                found = self._piece_of(_Left(_NOTHING, some) if is_converted else _Left(some))
                well = middle
            except RecordsError:
                most = middle - 1
        sound = self._fetched._replace(records=records[: ends[well]])
        self.next = FetchPosition(sound.next_offset(self._offset), _last_epoch(sound.records, self._leader_epoch))
        return found

    @property
    def untouched(self) -> bool:
        """Return whether no record of it has been taken."""
        return self._records is None

    @property
    def arrow_left(self) -> bool:
        """Return whether `take_arrow` may have another batch, or has an error to raise."""
        is_decoding = self.columns is not None and self._fetched is not None
        return self._piece is not None or is_decoding or self.failure is not None

    def take_arrow(self) -> tuple[pa.RecordBatch | None, FetchPosition]:
        """Take the next Arrow batch; return it and the position after it. The batch is None where none is left.

        Raises:
            RecordsError: The next bytes are not a record batch, and everything before them was taken.
        """
        if self._piece is None and self._fetched is not None:
            self._decode_piece()
        if self._piece is not None:
            taken, self._piece = self._piece, None
            return taken
        if self.failure is not None:
            raise self.failure
        return None, self.next


def _modern(records: memoryview, max_size: int, most: int) -> tuple[memoryview, memoryview]:
    """Convert the first of these batches, some of them messages of formats v0 and v1, to batches of v2.

    Return the converted batches, of about `most` bytes, and the bytes after those that were converted. One batch may
    expand to `max_size` bytes.
    """
    made = bytearray()
    # Messages without compression from `begin` to `end` are converted together.
    begin = end = 0

    def convert() -> None:
        for batch in upgraded(records, begin, end, max_size=max_size):
            made.extend(batch.records)

    for position, header in iter_any_headers(records):
        size = end - begin
        is_alone = header.magic == MAGIC or header.attributes & CODEC_MASK
        if size and (is_alone or size >= TOGETHER_BYTES or len(made) + size >= most):
            convert()
            begin = end
        if len(made) >= most:
            break
        end = position + header.size
        if is_alone:
            if header.magic == MAGIC:
                made += without_private_flag(records[position:end])
            else:
                convert()
            begin = end
    convert()
    return memoryview(made), records[end:]


def _end_of(batches: memoryview) -> int:
    """Return the offset after batches of v2."""
    return max((header.next_offset for _, header in iter_headers(batches)), default=0)


def _last_epoch(records: memoryview, leader_epoch: int) -> int:
    """Return the leader epoch of the last whole, readable batch; -1 where there is none.

    `leader_epoch` is the leader's own epoch, which no batch exceeds.
    """
    if len(records) <= MAGIC_AT or records[MAGIC_AT] != MAGIC:
        return NO_EPOCH
    epoch: int = _EPOCH.unpack_from(records, _EPOCH_AT)[0]
    if epoch == leader_epoch:
        # Epochs never decrease within a log.
        return epoch
    epoch = NO_EPOCH
    with contextlib.suppress(RecordsError):
        for position, header in iter_any_headers(records):
            epoch = _EPOCH.unpack_from(records, position + _EPOCH_AT)[0] if header.magic == MAGIC else NO_EPOCH
    return epoch

"""Batches that a caller encoded, such as from Arrow columns: numbered, sent and repeated as the producer's own."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.client.producer.batch import UNKNOWN_OFFSET, ProducerBatch, _Outcome
from kafkalog.records.batch import decode_batch, read_header, set_producer
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError


def check_encoded(data: bytearray) -> None:
    """ValueError unless ``data`` is one whole batch of records, its checksum aside, that belongs to no producer."""
    try:
        header = read_header(data)
        codec = header.codec
    except RecordsError as error:
        raise ValueError(f"no record batch: {error}") from None
    if header.size != len(data):
        raise ValueError(f"a record batch of {header.size} bytes in {len(data)} bytes")
    if header.records_count < 1 or header.last_offset_delta != header.records_count - 1:
        raise ValueError(f"{header.records_count} records with offsets up to {header.last_offset_delta}")
    if header.is_control or header.is_transactional or header.has_producer_id:
        raise ValueError(f"a batch that is a producer's already, or no batch of records (codec {codec.name})")


class EncodedBatch(ProducerBatch):
    """A batch whose bytes are there from the start; only its place in the producer's sequence is written into them."""

    __slots__ = ("_count", "_data")

    def __init__(self, topic: str, partition: int, serial: int, data: bytearray) -> None:
        super().__init__(topic, partition, serial)
        self.size = len(data)
        self._data: bytearray | None = data
        self._count = read_header(data).records_count

    def __repr__(self) -> str:
        return f"EncodedBatch({self.name}, {self._count} records, {self.size} bytes)"

    @property
    def count(self) -> int:
        return self._count

    def encode(self, codec: Codec, level: int | None, is_transactional: bool = False) -> bytearray:
        """Its bytes under its present number; they are compressed as they were given."""
        if self.encoded is None:
            assert self._data is not None
            set_producer(
                self._data,
                0,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                is_transactional=is_transactional,
            )
            self.encoded = self._data
        return self.encoded

    def split(self, serial: int, limit: int) -> list[ProducerBatch]:
        """At least two batches of its records, of about half the size at most; `limit` is of the compressed size."""
        assert self._data is not None
        _, records = decode_batch(self._data)
        self.values = [record.value for record in records]
        self.keys = [record.key for record in records]
        self.headers = [record.headers for record in records]
        self.timestamps = [record.timestamp for record in records]
        return super().split(serial, max(sum(map(self._record_size, range(self._count))) // 2, 1))

    def _complete(self, outcomes: list[_Outcome]) -> None:
        super()._complete(outcomes)
        if self.done:
            self._data = None

    def span(self) -> tuple[int, int]:
        """Offsets of the first and of the last record, -1 where they are not known; the batch must be done.

        Raises what befell the first of the records that failed.
        """
        for outcome in self._outcomes:
            if outcome.error is not None:
                raise outcome.error
        first, last = self._outcomes[0], self._outcomes[-1]
        if first.base_offset < 0 or last.base_offset < 0:
            return UNKNOWN_OFFSET, UNKNOWN_OFFSET
        return first.base_offset, last.base_offset + self._count - 1 - last.start


class EncodedFuture:
    """What becomes of a batch that the caller encoded: ``count`` records, ``size`` bytes."""

    __slots__ = ("_batch", "count", "size")

    def __init__(self, batch: EncodedBatch) -> None:
        self._batch = batch
        self.count = batch.count
        self.size = batch.size

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    def done(self) -> bool:
        """Whether all records are delivered, or some never will be."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> tuple[int, int]:
        """Offsets of the first and of the last record, -1 with acks=0; waits ``timeout`` seconds (None: for ever).

        Raises what kept the first of those that failed from being delivered; ClientTimeoutError when the wait was too
        short. Between the two offsets lie other producers' records where the batch had to be split.
        """
        self._batch.wait(timeout)
        return self._batch.span()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What kept the first of those that failed from being delivered, or None; waits as `result` does."""
        try:
            self._batch.wait(timeout)
            self._batch.span()
        except Exception as error:
            if not self._batch.done:
                raise
            return error
        return None

    def add_done_callback(self, callback: Callable[[EncodedFuture], object]) -> None:
        """As ``DeliveryFuture.add_done_callback``, once for the batch."""
        self._batch.add_callback(lambda: callback(self))

"""Batches that a caller has encoded, for example from Arrow columns.

They are numbered, sent and retried as others are.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.client.producer.batches.batch import UNKNOWN_OFFSET, ProducerBatch, _Outcome
from kafkalog.records.batch import decode_batch, read_header, set_producer
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError


def check_encoded(data: bytearray) -> None:
    """Check that `data` is one whole batch of records without a producer id.

    The checksum is not checked.

    Raises:
        ValueError: It is not.
    """
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
    """A batch that is encoded from the start. Only its place in the producer's sequence is written into its bytes."""

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
        """Return its bytes with its present number; they stay compressed as they are."""
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
        """Split its records into two or more batches, of about half the size at most.

        `limit` is of the compressed size, and not used.
        """
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
        """Return the offsets of the first and the last record, -1 where they are unknown; the batch must be done.

        Raises:
            Exception: A record has failed. This is the error of the first one that did.
        """
        for outcome in self._outcomes:
            if outcome.error is not None:
                raise outcome.error
        first, last = self._outcomes[0], self._outcomes[-1]
        if first.base_offset < 0 or last.base_offset < 0:
            return UNKNOWN_OFFSET, UNKNOWN_OFFSET
        return first.base_offset, last.base_offset + self._count - 1 - last.start


class EncodedFuture:
    """The outcome of a batch that the caller encoded: `count` records, `size` bytes."""

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
        """Tell whether all records are delivered, or some have failed."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> tuple[int, int]:
        """Return the offsets of the first and the last record, -1 with acks=0.

        Waits `timeout` seconds (None: without end). If the batch had to be split, records of other producers may be
        between the two offsets.

        Raises:
            ClientTimeoutError: The wait was too short.
            Exception: A record has failed. This is the error of the first one that did.
        """
        self._batch.wait(timeout)
        return self._batch.span()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Return the error of the first record that failed, or None; waits as `result` does."""
        try:
            self._batch.wait(timeout)
            self._batch.span()
        except Exception as error:
            if not self._batch.done:
                raise
            return error
        return None

    def add_done_callback(self, callback: Callable[[EncodedFuture], object]) -> None:
        """Add a callback as `DeliveryFuture.add_done_callback` does, to be called once for the batch."""
        self._batch.add_callback(lambda: callback(self))

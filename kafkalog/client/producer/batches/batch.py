"""Batches of records for a partition, and the futures of those who sent the records."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer.batches.record_encoding import (
    HEADER_OVERHEAD,
    KEY_OVERHEAD,
    PLAIN_OVERHEAD,
    TIMESTAMP_OVERHEAD,
    Headers,
    build_batch,
    encode_records,
    encode_values,
)
from kafkalog.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kafkalog.records.compression import Codec

UNKNOWN_OFFSET = -1

logger = logging.getLogger(__name__)


class RecordMetadata(NamedTuple):
    """The position of a record in the log.

    `offset` is -1 with acks=0. `timestamp` is in ms; with LogAppendTime it is the broker's.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Outcome(NamedTuple):
    """The outcome of a batch's records from `start` on."""

    start: int
    base_offset: int
    log_append_time: int
    error: Exception | None


class DeliveryFuture:
    """The outcome of one record.

    It has `result`, `exception`, `done` and `add_done_callback` as `concurrent.futures.Future` has them. A
    record cannot be cancelled.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Tell whether the record is delivered, or has failed."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; wait `timeout` seconds (None: without end) until that is known.

        Raises:
            ClientTimeoutError: The wait was too short.
            Exception: The delivery has failed. This is its error.
        """
        return self._batch.result(self._index, timeout)

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Return the error of the delivery, or None; waits as `result` does."""
        self._batch.wait(timeout)
        return self._batch.outcome(self._index).error

    def alone(self) -> BatchFuture:
        """Return the same outcome as that of several records."""
        return BatchFuture(self._batch, self._index, 1)

    def add_done_callback(self, callback: Callable[[DeliveryFuture], object]) -> None:
        """Call `callback` with this future once it is done, in the sender's thread; at once if it is done already.

        The sender waits while callbacks run. Exceptions that they raise are logged and otherwise ignored.
        """
        self._batch.add_callback(lambda: callback(self))


class BatchFuture:
    """The outcome of several records of one topic that one call has sent; `count` is their number."""

    __slots__ = ("_batch", "_start", "count")

    def __init__(self, batch: ProducerBatch, start: int, count: int) -> None:
        self._batch = batch
        self._start = start
        self.count = count

    def done(self) -> bool:
        """Tell whether all records are delivered, or have failed."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """Return where the records are.

        Raises:
            Exception: A record has failed. This is the error of the first one that did.
        """
        return [self._batch.result(index, timeout) for index in range(self._start, self._start + self.count)]

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Return the error of the first record that failed, or None."""
        return next((error for _, error in self.failures(timeout)), None)

    def failures(self, timeout: float | None = None) -> list[tuple[int, Exception]]:
        """Return the errors of the records that failed, with their places among these records."""
        self._batch.wait(timeout)
        return self._batch.failures(self._start, self._start + self.count)

    def add_done_callback(self, callback: Callable[[BatchFuture], object]) -> None:
        """Add a callback as `DeliveryFuture.add_done_callback` does, to be called once for all records."""
        self._batch.add_callback(lambda: callback(self))


class ProducerBatch:
    """Records of one partition that travel together.

    It is filled under the accumulator's lock; only the sender sends it.

    Attributes:
        serial: Its number among the partition's batches.
        size: An upper bound of the bytes of its records, uncompressed; the memory it counts for in buffer.memory.
        keys: None while no record has a key or headers.
        hurried: Whether its last retry went to another leader without a pause.
        in_doubt: Whether it was sent under its present sequence number, so that it may be in the log.
        position: The place of its first record in the batch that it was split from, directly or in several steps.
    """

    __slots__ = (
        "_callbacks",
        "_event",
        "_lock",
        "_outcomes",
        "_pending_parts",
        "_records",
        "attempts",
        "base_sequence",
        "created",
        "done",
        "encoded",
        "headers",
        "hurried",
        "in_doubt",
        "keys",
        "parent",
        "parent_start",
        "partition",
        "position",
        "producer_epoch",
        "producer_id",
        "retry_at",
        "serial",
        "size",
        "timestamps",
        "topic",
        "values",
    )

    def __init__(self, topic: str, partition: int, serial: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.serial = serial
        self.created = time.monotonic()
        self.size = 0
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] | None = None
        self.headers: list[Headers] | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.retry_at = 0.0
        self.in_doubt = False
        self.hurried = False
        self.encoded: bytearray | None = None
        self.done = False
        self.parent: ProducerBatch | None = None
        self.parent_start = 0
        self.position = 0
        self._records: bytes | None = None
        self._outcomes: list[_Outcome] = []
        self._pending_parts = 1
        self._lock = threading.Lock()
        """Guards the moment between a waiter's look at the batch and the beginning of its wait. It is never held for
        long."""
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[], object]] | None = None

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic}-{self.partition}, {len(self.values)} records, {self.size} bytes)"

    @property
    def count(self) -> int:
        return len(self.timestamps)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    # Filling

    def append_keyed(self, value: bytes | None, timestamp: int, key: bytes | None, headers: Headers) -> None:
        """Append a record that has a key or headers; the caller updates `size`."""
        if self.keys is None or self.headers is None:
            self.keys = [None] * len(self.values)
            self.headers = [()] * len(self.values)
        self.values.append(value)
        self.timestamps.append(timestamp)
        self.keys.append(key)
        self.headers.append(headers)

    def cut(self, count: int) -> None:
        """Leave the first `count` records, whose size is the batch's."""
        for each in (self.values, self.timestamps, self.keys, self.headers):
            if each is not None:
                del each[count:]

    def encode(self, codec: Codec, level: int | None, is_transactional: bool = False) -> bytearray:
        """Encode the batch; once, and again when its identity or sequence has changed."""
        if self.encoded is None:
            if self._records is None:
                if self.keys is None or self.headers is None:
                    self._records = encode_values(self.values, self.timestamps)
                else:
                    self._records = encode_records(self.values, self.timestamps, self.keys, self.headers)
            self.encoded = build_batch(
                self._records,
                self.timestamps,
                codec=codec,
                level=level,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=is_transactional,
            )
        return self.encoded

    def identify(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Set the batch's place in a producer's sequence."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.in_doubt = False
        self.hurried = False
        self.encoded = None

    def split(self, serial: int, limit: int) -> list[ProducerBatch]:
        """Split the batch into two or more parts of at most `limit` bytes, or one record each.

        It is done when all parts are done.
        """
        parts = []
        start = 0
        while start < self.count:
            end, size = start, 0
            while end < self.count:
                more = self._record_size(end)
                # At least one record goes to another part, whatever the limit.
                if end > start and (size + more > limit or end - start == self.count - 1):
                    break
                size += more
                end += 1
            parts.append(self._part(start, end, serial, size))
            start = end
        self._pending_parts = len(parts)
        return parts

    def _record_size(self, index: int) -> int:
        """Return about the size of a record in the batch, and not less."""
        size = PLAIN_OVERHEAD + TIMESTAMP_OVERHEAD + len(self.values[index] or b"")
        if self.keys is not None and self.headers is not None:
            size += KEY_OVERHEAD + len(self.keys[index] or b"")
            size += sum(HEADER_OVERHEAD + len(name.encode()) + len(value or b"") for name, value in self.headers[index])
        return size

    def _part(self, start: int, end: int, serial: int, size: int) -> ProducerBatch:
        part = ProducerBatch(self.topic, self.partition, serial)
        part.created = self.created
        part.values = self.values[start:end]
        part.timestamps = self.timestamps[start:end]
        if self.keys is not None and self.headers is not None:
            part.keys = self.keys[start:end]
            part.headers = self.headers[start:end]
        part.size = size
        part.attempts = self.attempts
        part.parent = self
        part.parent_start = start
        part.position = self.position + start
        if self.base_sequence != NO_SEQUENCE:
            part.identify(self.producer_id, self.producer_epoch, (self.base_sequence + start) & 0x7FFFFFFF)
        return part

    # Becoming done

    def complete(self, base_offset: int, log_append_time: int, error: Exception | None) -> None:
        """Set the outcome of all records: delivered from `base_offset` on, or `error`."""
        self._complete([_Outcome(0, base_offset, log_append_time, error)])

    def _complete(self, outcomes: list[_Outcome]) -> None:
        self._outcomes += outcomes
        self._pending_parts -= 1
        if self._pending_parts > 0:
            return
        self._outcomes.sort(key=lambda each: each.start)
        if self.parent is not None:
            shift = self.parent_start
            self.parent._complete([each._replace(start=each.start + shift) for each in self._outcomes])
        with self._lock:
            self.done = True
            event, callbacks = self._event, self._callbacks
            self._callbacks = None
        # Futures still need the timestamps, and nothing else.
        self.values = []
        self.keys = self.headers = None
        self._records = self.encoded = None
        if event is not None:
            event.set()
        for callback in callbacks or ():
            _call(callback)

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the batch is done."""
        with self._lock:
            if not self.done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        _call(callback)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the batch is done.

        Raises:
            ClientTimeoutError: The batch is not done in time.
        """
        if self.done:
            return
        with self._lock:
            if self.done:
                return
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        if not event.wait(timeout):
            raise ClientTimeoutError(f"not known after {timeout} s whether the record is in {self.name}")

    def outcome(self, index: int) -> _Outcome:
        """Return the outcome of a record; the batch must be done."""
        outcomes = self._outcomes
        if len(outcomes) == 1:
            return outcomes[0]
        return outcomes[bisect_right(outcomes, index, key=lambda each: each.start) - 1]

    def failures(self, start: int, end: int) -> list[tuple[int, Exception]]:
        """Return the errors of a range of records, counted from its start; the batch must be done."""
        if all(outcome.error is None for outcome in self._outcomes):
            return []
        found = ((index - start, self.outcome(index).error) for index in range(start, end))
        return [(index, error) for index, error in found if error is not None]

    def result(self, index: int, timeout: float | None) -> RecordMetadata:
        """Return where a record is; see `DeliveryFuture.result`."""
        self.wait(timeout)
        found = self.outcome(index)
        if found.error is not None:
            raise found.error
        offset = UNKNOWN_OFFSET if found.base_offset < 0 else found.base_offset + index - found.start
        timestamp = found.log_append_time if found.log_append_time >= 0 else self.timestamps[index]
        return RecordMetadata(self.topic, self.partition, offset, timestamp)


def failed_future(topic: str, partition: int | None, error: Exception) -> DeliveryFuture:
    """Make the future of a record that was not accepted."""
    batch = ProducerBatch(topic, -1 if partition is None else partition)
    batch.complete(UNKNOWN_OFFSET, -1, error)
    return DeliveryFuture(batch, 0)


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException:
        # This includes SystemExit: it would end the producer's thread, not the program, and skip later callbacks.
        logger.exception("a delivery callback failed")

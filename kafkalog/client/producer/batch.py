"""Batches of records on their way to a partition, and the futures that their senders hold."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer.record_encoding import (
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

_log = logging.getLogger(__name__)


class RecordMetadata(NamedTuple):
    """Where a record is now. ``offset`` is -1 with acks=0; ``timestamp`` in ms, the broker's with LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Outcome(NamedTuple):
    """What became of the records of a batch from ``start`` on."""

    start: int
    base_offset: int
    log_append_time: int
    error: Exception | None


class DeliveryFuture:
    """What becomes of one record.

    Of ``concurrent.futures.Future`` it has ``result``, ``exception``, ``done`` and ``add_done_callback``; a record
    cannot be cancelled.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record is delivered, or never will be."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; waits ``timeout`` seconds (None: for ever) until that is known.

        Raises what kept the record from being delivered; ClientTimeoutError when the wait was too short.
        """
        return self._batch.result(self._index, timeout)

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What kept the record from being delivered, or None; waits as `result` does."""
        self._batch.wait(timeout)
        return self._batch.outcome(self._index).error

    def alone(self) -> BatchFuture:
        """The same as one of several records."""
        return BatchFuture(self._batch, self._index, 1)

    def add_done_callback(self, callback: Callable[[DeliveryFuture], object]) -> None:
        """Have ``callback`` called with this future once it is done, from the sender's thread; at once if it is.

        Callbacks hold up the sender while they run. What they raise is logged and otherwise ignored.
        """
        self._batch.add_callback(lambda: callback(self))


class BatchFuture:
    """What becomes of several records of one topic that were sent together: ``count`` of them from one call."""

    __slots__ = ("_batch", "_start", "count")

    def __init__(self, batch: ProducerBatch, start: int, count: int) -> None:
        self._batch = batch
        self._start = start
        self.count = count

    def done(self) -> bool:
        """Whether all of them are delivered, or never will be."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """Where the records are; raises what kept the first of those that failed from being delivered."""
        return [self._batch.result(index, timeout) for index in range(self._start, self._start + self.count)]

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What kept the first of those that failed from being delivered, or None."""
        return next((error for _, error in self.failures(timeout)), None)

    def failures(self, timeout: float | None = None) -> list[tuple[int, Exception]]:
        """The records that failed, by their places among these, and what befell them."""
        self._batch.wait(timeout)
        return self._batch.failures(self._start, self._start + self.count)

    def add_done_callback(self, callback: Callable[[BatchFuture], object]) -> None:
        """As ``DeliveryFuture.add_done_callback``, once for all of the records."""
        self._batch.add_callback(lambda: callback(self))


class ProducerBatch:
    """Records of one partition that travel together. Filled under the accumulator's lock, sent by the sender alone."""

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
        """Its place among the partition's batches."""
        self.created = time.monotonic()
        self.size = 0
        """Upper bound of the bytes of its records, uncompressed; what it takes of buffer.memory."""
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] | None = None
        """None while no record has a key or headers."""
        self.headers: list[Headers] | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.retry_at = 0.0
        self.in_doubt = False
        """Whether it was sent under its present sequence number and may be in the log."""
        self.encoded: bytearray | None = None
        self.done = False
        self.parent: ProducerBatch | None = None
        self.parent_start = 0
        self.position = 0
        """Place of its first record in the batch that it was split from, at first hand or at second."""
        self._records: bytes | None = None
        self._outcomes: list[_Outcome] = []
        self._pending_parts = 1
        self._lock = threading.Lock()
        """Guards the moment between a waiter's look at the batch and the beginning of its wait; never held for long."""
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
        """Append a record that has a key or headers; ``size`` is the caller's."""
        if self.keys is None or self.headers is None:
            self.keys = [None] * len(self.values)
            self.headers = [()] * len(self.values)
        self.values.append(value)
        self.timestamps.append(timestamp)
        self.keys.append(key)
        self.headers.append(headers)

    def encode(self, codec: Codec, level: int | None, is_transactional: bool = False) -> bytearray:
        """The batch's bytes; made once, and again where its identity or sequence has changed."""
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
        """Give it a place in a producer's sequence."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.in_doubt = False
        self.encoded = None

    def split(self, serial: int, limit: int) -> list[ProducerBatch]:
        """Parts of at most ``limit`` bytes (or one record); when all are done this one is. At least two parts."""
        parts = []
        start = 0
        while start < self.count:
            end, size = start, 0
            while end < self.count:
                more = self._record_size(end)
                # Whatever the limit, the last record does not join all of the others.
                if end > start and (size + more > limit or end - start == self.count - 1):
                    break
                size += more
                end += 1
            parts.append(self._part(start, end, serial, size))
            start = end
        self._pending_parts = len(parts)
        return parts

    def _record_size(self, index: int) -> int:
        """About what a record takes, not less."""
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
        """Say what became of the records: they are at ``base_offset`` and after, or ``error`` befell all of them."""
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
        # Only timestamps are still of use, to futures.
        self.values = []
        self.keys = self.headers = None
        self._records = self.encoded = None
        if event is not None:
            event.set()
        for callback in callbacks or ():
            _call(callback)

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the batch is done."""
        with self._lock:
            if not self.done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        _call(callback)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the batch is done; ClientTimeoutError."""
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
        """What became of a record; the batch must be done."""
        outcomes = self._outcomes
        if len(outcomes) == 1:
            return outcomes[0]
        return outcomes[bisect_right(outcomes, index, key=lambda each: each.start) - 1]

    def failures(self, start: int, end: int) -> list[tuple[int, Exception]]:
        """The failed records of a range, counted from its start; the batch must be done."""
        if all(outcome.error is None for outcome in self._outcomes):
            return []
        found = ((index - start, self.outcome(index).error) for index in range(start, end))
        return [(index, error) for index, error in found if error is not None]

    def result(self, index: int, timeout: float | None) -> RecordMetadata:
        """Where a record is; see `DeliveryFuture.result`."""
        self.wait(timeout)
        found = self.outcome(index)
        if found.error is not None:
            raise found.error
        offset = UNKNOWN_OFFSET if found.base_offset < 0 else found.base_offset + index - found.start
        timestamp = found.log_append_time if found.log_append_time >= 0 else self.timestamps[index]
        return RecordMetadata(self.topic, self.partition, offset, timestamp)


def failed_future(topic: str, partition: int | None, error: Exception) -> DeliveryFuture:
    """The future of a record that was never taken."""
    batch = ProducerBatch(topic, -1 if partition is None else partition)
    batch.complete(UNKNOWN_OFFSET, -1, error)
    return DeliveryFuture(batch, 0)


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException:
        # SystemExit, too: it would end the producer's thread, not the program, and the callbacks after this one.
        _log.exception("a delivery callback failed")

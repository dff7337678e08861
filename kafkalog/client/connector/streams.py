"""Streams of a consumer connector: queues of fetched records, from which the application takes them.

A stream has one queue for all of its partitions. It holds at most `queued.max.message.chunks` chunks, each with the
records of one fetch of one partition. A partition counts as consumed up to a record once the stream has returned it.
When partitions are given up, what was fetched of them is dropped. A stream hands out records only while the member's
session with ZooKeeper is known to live (`lease`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog.client.connector.lease import Lease
from kafkalog.client.errors import ClientError
from kafkalog.client.types import ConsumerRecord, TopicPartition

Decoder = Callable[[bytes], Any]
"""Make a value from the bytes of a record's key or value; not called for null."""

_LEASE_S = 0.05
"""The interval at which a stream checks whether its lease holds again."""


class ConsumerTimeoutError(ClientError, TimeoutError):
    """No record came within `consumer.timeout.ms`. The stream may be read on."""


class PartitionState:
    """A partition that a stream owns, until it is given up.

    Attributes:
        consumed: The offset after the last record that was consumed; None before that is known.
        is_revoked: Whether the partition was given up.
        is_settled: Whether `consumed` is final.
        high_watermark: The end of what consumers may read, as the last fetch told it; None before the first one.
    """

    __slots__ = ("consumed", "high_watermark", "is_revoked", "is_settled", "tp")

    def __init__(self, tp: TopicPartition, consumed: int | None) -> None:
        self.tp = tp
        self.consumed = consumed
        self.is_revoked = False
        self.is_settled = False
        self.high_watermark: int | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets that were not consumed yet; None before the first fetch."""
        if self.consumed is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.consumed)


class Chunk(NamedTuple):
    """The records of one fetch of a partition."""

    partition: PartitionState
    records: list[ConsumerRecord]
    is_reset: bool = False
    """True if the log did not have the offset that was due, so that these records have other ones."""


class MessageStream:
    """An iterator over the records of a stream's partitions (Kafka: `KafkaStream`). One thread reads it.

    Args:
        capacity: The chunks that wait at most.
        timeout: `consumer.timeout.ms` in seconds; None waits for ever.
        lease: The lease of the member's session.
        key_decoder: Makes the keys of the records.
        value_decoder: Makes their values.
    """

    def __init__(
        self,
        capacity: int,
        timeout: float | None,
        lease: Lease,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> None:
        self._capacity = capacity
        self._timeout = timeout
        self._lease = lease
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._decodes = key_decoder is not None or value_decoder is not None
        self._changed = threading.Condition()
        self._chunks: deque[Chunk] = deque()
        self._current: tuple[PartitionState, deque[ConsumerRecord]] | None = None
        self._taken: list[tuple[PartitionState, int]] = []
        """The progress of `poll` that `consumed` has not noted yet: partitions and the offsets after the records."""
        self._messages: Counter[str] = Counter()
        """The records that were taken, by topic."""
        self._bytes: Counter[str] = Counter()
        """The bytes of keys and values that were put, by topic."""
        self._errors: dict[PartitionState, Exception] = {}
        """The error of each fetcher that fails, by the partition that it named."""
        self._is_closed = False

    # For the application

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record, which then counts as consumed.

        Raises:
            StopIteration: The connector was shut down.
            ConsumerTimeoutError: No record came in time.
            ClientError, KafkaError, RecordsError: A partition cannot be read.
        """
        # One turn of the lock, because this is done for each record.
        with self._changed:
            records = self._take(self._timeout, 1)
            self._note_consumed()
        if records:
            return self._decoded(records[0])
        if self._is_closed:
            raise StopIteration
        raise ConsumerTimeoutError(f"no record came within consumer.timeout.ms={round((self._timeout or 0) * 1000)}")

    def poll(self, timeout: float | None, limit: int) -> list[ConsumerRecord]:
        """Return at most `limit` records of one partition; wait `timeout` seconds for the first (None: for ever).

        They count as consumed once `consumed` is called. None are returned at the time-out, and after the shutdown.

        Raises:
            ClientError, KafkaError, RecordsError: A partition cannot be read.
        """
        with self._changed:
            found = self._take(timeout, limit)
        return [self._decoded(each) for each in found] if self._decodes else found

    def consumed(self) -> None:
        """Note that everything that `poll` has returned was consumed."""
        with self._changed:
            self._note_consumed()

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return how many records were returned, and how many bytes of keys and values were fetched, by topic."""
        with self._changed:
            return Counter(self._messages), Counter(self._bytes)

    # For the fetchers

    def put(self, chunk: Chunk) -> bool:
        """Add a chunk; wait while the queue is full. Return False if the partition was given up meanwhile."""
        size = sum(len(each.key or b"") + len(each.value or b"") for each in chunk.records)
        with self._changed:
            while len(self._chunks) >= self._capacity and not (chunk.partition.is_revoked or self._is_closed):
                self._changed.wait()
            if chunk.partition.is_revoked or self._is_closed:
                return False
            self._chunks.append(chunk)
            self._bytes[chunk.partition.tp.topic] += size
            self._changed.notify_all()
            return True

    def fail(self, partition: PartitionState, error: Exception) -> None:
        """Let the application get an error, after the records that wait.

        It gets it until `recovered` is called, or the partition is given up.
        """
        with self._changed:
            if not partition.is_revoked:
                self._errors[partition] = error
                self._changed.notify_all()

    def recovered(self, partition: PartitionState) -> None:
        """Forget the error that `fail` told of for the same partition."""
        with self._changed:
            self._errors.pop(partition, None)

    def revoke(self, partitions: Iterable[PartitionState]) -> None:
        """Give up all partitions of the stream: no record of theirs is returned after this.

        What was returned may be noted as consumed until they are settled.
        """
        with self._changed:
            for each in partitions:
                each.is_revoked = True
            self._chunks.clear()
            self._errors.clear()
            self._current = None
            self._changed.notify_all()

    def settle(self, partitions: Iterable[PartitionState]) -> None:
        """Note nothing more of these partitions as consumed."""
        with self._changed:
            for each in partitions:
                each.is_settled = True

    def close(self) -> None:
        """End the stream: it returns nothing more."""
        with self._changed:
            self._is_closed = True
            self._chunks.clear()
            self._errors.clear()
            self._current = None
            self._changed.notify_all()

    # Inside

    def _take(self, timeout: float | None, limit: int) -> list[ConsumerRecord]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._is_closed:
            now = time.monotonic()
            holds = self._lease.holds(now)
            if holds and (found := self._next(limit)):
                return found
            if self._errors and holds:
                raise next(iter(self._errors.values()))
            left = None if deadline is None else deadline - now
            if left is not None and left <= 0:
                break
            waits_for_lease = not holds and (self._current is not None or self._chunks)
            self._changed.wait(min(left or _LEASE_S, _LEASE_S) if waits_for_lease else left)
        return []

    def _next(self, limit: int) -> list[ConsumerRecord]:
        """Take records of the current chunk, or of the next one."""
        while self._current is None:
            if not self._chunks:
                return []
            partition, records, is_reset = self._chunks.popleft()
            self._changed.notify_all()
            if is_reset:
                partition.consumed = records[0].offset
            # What was consumed already may come again: a fetch begins with a whole batch.
            fresh = deque(each for each in records if partition.consumed is None or each.offset >= partition.consumed)
            if fresh:
                self._current = partition, fresh
        partition, waiting = self._current
        found = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        if not waiting:
            self._current = None
        self._messages[partition.tp.topic] += len(found)
        self._taken.append((partition, found[-1].offset + 1))
        return found

    def _note_consumed(self) -> None:
        for partition, offset in self._taken:
            if not partition.is_settled:
                partition.consumed = offset
        self._taken.clear()

    def _decoded(self, record: ConsumerRecord) -> ConsumerRecord:
        if not self._decodes:
            return record
        key, value = record.key, record.value
        if key is not None and self._key_decoder is not None:
            key = self._key_decoder(key)
        if value is not None and self._value_decoder is not None:
            value = self._value_decoder(value)
        return record._replace(key=key, value=value)

"""Records that wait to be sent: a queue for each partition, one lock, and one bound on the memory of all.

Threads that send records append under the lock. The sender's thread takes batches out, puts back those that must be
retried, and says when a batch is done. A queue holds, oldest first: batches to retry (which have their sequence
numbers), full batches, and the open one, which grows until the sender takes it.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from kafkalog.client.errors import ClientError, ClientTimeoutError
from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.producer.batches.encoded_batch import EncodedBatch
from kafkalog.client.producer.batches.record_encoding import Headers
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import NO_LEADER, PartitionQueue
from kafkalog.client.producer.plan import Plan
from kafkalog.client.producer.transactions.transaction_manager import State, TransactionManager
from kafkalog.client.types import TopicPartition
from kafkalog.records.batch import NO_SEQUENCE

LOW_WATER = 0.75
"""The share of buffer.memory to which usage must fall before threads that wait for room continue. So they continue for
a while, instead of for one record at a time."""


class ProducerClosedError(ClientError, RuntimeError):
    """The producer was closed before, or while, the record was sent."""


class Accumulator:
    """The queues of all partitions. `wake` ends the sender's wait."""

    def __init__(self, config: ProducerConfig, wake: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        """Notified when there is room again, and when the partitions of topics become known."""
        self.used = 0
        self.closed = False
        self.transactions = TransactionManager(config.transactional_id) if config.transactional_id else None
        """Guarded by the lock."""
        self.shut = self.transactions is not None
        """True if records are refused at present; `check_open` raises the reason."""
        self.why_closed = "the producer is closed"
        self.idle = False
        """True if the sender waits, and must be woken for new work."""
        self.sender_thread: int | None = None
        """The identifier of the sender's thread."""
        self._config = config
        self._wake = wake
        self._limit = config.batch_limit
        self._batch_size = config.batch_size
        self._memory = config.buffer_memory
        self._active: dict[PartitionQueue, None] = {}
        self._incomplete: dict[ProducerBatch, None] = {}
        self._ending: list[ProducerBatch] = []
        """Batches whose memory was given back, while their futures and callbacks are being called."""
        self._releases = 0
        self._blocked = 0
        self._flushing = 0

    # For threads that send records

    def append(
        self,
        queue: PartitionQueue,
        value: bytes | None,
        timestamp: int,
        key: bytes | None,
        headers: Headers,
        size: int,
    ) -> tuple[ProducerBatch, int]:
        """Append a record of at most `size` bytes; return its batch and its place there.

        Waits while buffer.memory is used up.

        Raises:
            ClientTimeoutError: There was no room for `max.block.ms`.
            ProducerClosedError: The producer is closed, or was closed meanwhile.
        """
        with self.lock:
            batch, index = queue.open, -1
            try:
                if batch is None or batch.size + size > self._limit or self.used + size > self._memory or self.shut:
                    batch = self._make_room(queue, size)
                index = len(batch.timestamps)
                if key is None and not headers and batch.keys is None:
                    batch.values.append(value)
                    batch.timestamps.append(timestamp)
                else:
                    batch.append_keyed(value, timestamp, key, headers)
                before = batch.size
                batch.size = after = before + size
                self.used += size
            except BaseException:
                self._take_back(queue, index)
                raise
            if self.idle and (not before or before < self._batch_size <= after):
                self.rouse()
            return batch, index

    def extend(
        self, queue: PartitionQueue, values: Sequence[bytes], ends: Sequence[int], start: int, timestamp: int
    ) -> tuple[ProducerBatch, int, int]:
        """Append as many of `values[start:]` as one batch takes, at least one.

        Returns the batch, the place of the first record there, and how many were appended. `ends[i]` is the maximum
        of bytes that the records of `values[: i + 1]` take. Waits and raises as `append` does.
        """
        base = ends[start - 1] if start else 0
        first = ends[start] - base
        with self.lock:
            batch, index = queue.open, -1
            try:
                if batch is None or batch.size + first > self._limit or self.used + first > self._memory or self.shut:
                    batch = self._make_room(queue, first)
                room = min(self._limit - batch.size, self._memory - self.used)
                stop = max(bisect_right(ends, base + room, start), start + 1)
                index = len(batch.timestamps)
                count = stop - start
                batch.values.extend(values[start:stop])
                batch.timestamps.extend(repeat(timestamp, count))
                if batch.keys is not None and batch.headers is not None:
                    batch.keys.extend(repeat(None, count))
                    batch.headers.extend(repeat((), count))
                before = batch.size
                batch.size = after = before + ends[stop - 1] - base
                self.used += after - before
            except BaseException:
                self._take_back(queue, index)
                raise
            if self.idle and (not before or before < self._batch_size <= after):
                self.rouse()
            return batch, index, count

    def put(self, queue: PartitionQueue, data: bytearray) -> EncodedBatch:
        """Append an encoded batch to the partition's queue. Waits and raises as `append` does."""
        size = len(data)
        with self.lock:
            self.check_open()
            if self.used + size > self._memory:
                self._wait_for_memory(size)
            batch = EncodedBatch(queue.topic, queue.partition, queue.serial + 1, data)
            self._close_open(queue)
            queue.serial += 1
            queue.used_at = batch.created
            self._incomplete[batch] = None
            self._active[queue] = None
            self.used += size
            queue.ready.append(batch)
            if self.idle:
                self.rouse()
            return batch

    def _make_room(self, queue: PartitionQueue, size: int) -> ProducerBatch:
        """Return an open batch that takes `size` bytes, once there is memory for them; the lock is held."""
        self.check_open()
        if self.used + size > self._memory:
            self._wait_for_memory(size)
        batch = queue.open
        if batch is None or batch.size + size > self._limit:
            batch = ProducerBatch(queue.topic, queue.partition, queue.serial + 1)
            self._close_open(queue)
            queue.serial += 1
            queue.open = batch
            queue.used_at = batch.created
            self._incomplete[batch] = None
            self._active[queue] = None
        return batch

    @staticmethod
    def _close_open(queue: PartitionQueue) -> None:
        """Take no more records into the partition's open batch.

        An exception of a signal's handler comes after a call has returned. So the batch is always in one place only.
        """
        batch, queue.open = queue.open, None
        if batch is not None:
            queue.ready.append(batch)

    def _take_back(self, queue: PartitionQueue, count: int) -> None:
        """Leave `count` records in the partition's open batch, because an exception came while more were appended.

        It may be one of a signal's handler. -1 means that none was appended yet.
        """
        batch = queue.open
        if batch is None:
            return
        if count >= 0:
            batch.cut(count)
        if not batch.count:
            queue.open = None
            self._incomplete.pop(batch, None)

    def _wait_for_memory(self, size: int) -> None:
        def room() -> bool:
            return self.shut or self.used == 0 or (self.used <= low and self.used + size <= self._memory)

        low = self._memory * LOW_WATER
        self._blocked += 1
        self.rouse()
        try:
            if not self.changed.wait_for(room, self.patience()):
                raise ClientTimeoutError(
                    f"no room for {size} bytes in {self._config.max_block * 1000:.0f} ms (max.block.ms): buffer.memory "
                    f"of {self._memory} bytes is full of records that the brokers have not taken"
                )
        finally:
            self._blocked -= 1
        self.check_open()

    def check_open(self) -> None:
        """Check that records are taken.

        Raises:
            ProducerClosedError: The producer is closed.
            Exception: The transaction's state does not allow records; `TransactionManager.check_send` raises it.
        """
        self.check_not_closed()
        if self.transactions is not None:
            self.transactions.check_send()

    def check_not_closed(self) -> None:
        """Check that the producer is not closed.

        Raises:
            ProducerClosedError: It is.
        """
        if self.closed:
            raise ProducerClosedError(self.why_closed)

    def admit(self) -> None:
        """Open or shut the accumulator for records, as the transaction's state requires; the lock is held."""
        if self.transactions is not None:
            self.shut = self.closed or self.transactions.state is not State.IN_TRANSACTION
            if self.shut:
                self.changed.notify_all()
            self.rouse()

    def flush(self, timeout: float | None) -> None:
        """Send all records without lingering; wait until they are done and their callbacks have returned.

        Raises:
            ClientTimeoutError: They are not done after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            pending = [*self._incomplete, *self._ending]
            self._flushing += 1
            self.rouse()
        try:
            for batch in pending:
                batch.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
            with self.lock:
                # The last batches are done, but their callbacks may still be running.
                number = self._releases
                left = None if deadline is None else max(deadline - time.monotonic(), 0)
                if not self.changed.wait_for(lambda: not self._ending or self._releases != number, left):
                    raise ClientTimeoutError(f"delivery callbacks have not returned after {timeout} s")
        finally:
            with self.lock:
                self._flushing -= 1

    def wait_until_empty(self, timeout: float | None) -> bool:
        """Wait until all records are done and their callbacks have returned; return whether they have.

        Call it when no more records are taken.
        """
        with self.lock:
            return self.changed.wait_for(lambda: not self._incomplete and not self._ending, timeout)

    def close(self) -> None:
        """Take no more records; send the present ones without lingering."""
        with self.lock:
            self.closed = self.shut = True
            self.changed.notify_all()
            self.rouse()

    def disown(self, why: str) -> None:
        """Take no more records in a forked process, which does not have the sender's thread.

        The lock is replaced, because a thread that is not in this process may hold it for ever.
        """
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.closed = self.shut = True
        self.why_closed = why

    def patience(self) -> float:
        """Return the seconds to wait at most: none in a delivery callback, which would wait for itself."""
        return 0.0 if threading.get_ident() == self.sender_thread else self._config.max_block

    @property
    def incomplete(self) -> bool:
        """Return whether there are batches that are not done."""
        return bool(self._incomplete)

    def gauges(self) -> dict[str, float]:
        """Return the present usage under Kafka's names."""
        with self.lock:
            return {
                "buffer-total-bytes": self._memory,
                "buffer-available-bytes": self._memory - self.used,
                "waiting-threads": self._blocked,
            }

    def rouse(self) -> None:
        """Wake the sender if it waits; the lock is held."""
        if self.idle:
            # A signal's handler may raise before it is woken; then the next call wakes it.
            self._wake()
            self.idle = False

    # For the sender

    def take(self, now: float, idempotent: bool, identified: bool, free: Callable[[int], float]) -> Plan:
        """Take out the batches that can be sent now.

        `free` returns when a node takes another request (`time.monotonic`); at or before `now` means at once.
        """
        plan = Plan()
        with self.lock:
            hurry = self.closed or self._flushing > 0 or self._blocked > 0
            transactions = self.transactions
            sizes: dict[int, int] = {}
            for queue in list(self._active):
                self._expire(queue, now, plan)
                batch = self._next(queue, now, hurry, plan)
                if batch is None:
                    if queue.open is None and not queue.ready:
                        del self._active[queue]
                    continue
                if queue.leader == NO_LEADER:
                    plan.leaderless.add(queue.topic)
                    continue
                if transactions is not None and (queue.topic, queue.partition) not in transactions.partitions:
                    plan.unregistered.append(TopicPartition(queue.topic, queue.partition))
                    continue
                if idempotent and not identified:
                    plan.needs_producer_id = True
                    continue
                at = free(queue.leader)
                if at > now:
                    plan.wake_at = min(plan.wake_at, at)
                    continue
                total = sizes.get(queue.leader, 0) + batch.size
                if total > self._config.max_request_size and queue.leader in plan.requests:
                    # The rest goes with the next request, which begins with the batch that waits longest.
                    plan.wake_at = now
                    continue
                sizes[queue.leader] = total
                self._pop(queue)
                plan.requests.setdefault(queue.leader, []).append(batch)
                # Move it to the end, so that partitions take turns.
                del self._active[queue]
                if queue.open is not None or queue.ready:
                    self._active[queue] = None
                    plan.wake_at = min(plan.wake_at, now if hurry or queue.ready else plan.wake_at)
            plan.finished = self.closed and not self._incomplete and not plan.expired
            self.idle = True
        return plan

    def _alone(self, queue: PartitionQueue) -> bool:
        """Tell whether the partition's next batch must wait until nothing of the partition is in flight.

        The first batch of a sequence must be acknowledged before another is sent, because a broker that does not know a
        producer accepts any first number. If the first batch were refused for a while (NOT_LEADER_OR_FOLLOWER), the
        second would be appended, and the first never. (Kafka's VerificationStateEntry describes this, and prevents a
        part of it.)
        """
        return queue.reset or self._config.max_in_flight == 1 or (self._config.idempotence and not queue.begun)

    def _next(self, queue: PartitionQueue, now: float, hurry: bool, plan: Plan) -> ProducerBatch | None:
        """Return the batch to send next, if it may go now; otherwise note in the plan when to look again."""
        if queue.ready:
            batch = queue.ready[0]
            # To keep the order, a retry waits for the outcome of everything before it.
            if queue.in_flight and (batch.attempts or self._alone(queue)):
                return None
            if batch.retry_at > now:
                plan.wake_at = min(plan.wake_at, batch.retry_at)
                return None
            return batch
        if queue.open is None or (queue.in_flight and self._alone(queue)):
            return None
        batch = queue.open
        if not hurry and batch.size < self._batch_size:
            due = batch.created + self._config.linger
            if due > now:
                plan.wake_at = min(plan.wake_at, due)
                return None
        return batch

    def _pop(self, queue: PartitionQueue) -> None:
        if queue.ready:
            batch = queue.ready.popleft()
        else:
            assert queue.open is not None
            batch, queue.open = queue.open, None
        queue.in_flight.append(batch)

    def _expire(self, queue: PartitionQueue, now: float, plan: Plan) -> None:
        timeout = self._config.delivery_timeout
        while queue.ready or queue.open is not None:
            batch = queue.ready[0] if queue.ready else queue.open
            assert batch is not None
            if batch.created + timeout > now:
                plan.expires_at = min(plan.expires_at, batch.created + timeout)
                return
            if queue.ready:
                queue.ready.popleft()
            else:
                queue.open = None
            if batch.base_sequence != NO_SEQUENCE and self.transactions is None:
                queue.reset = True
            plan.expired.append(batch)

    def requeue(self, queue: PartitionQueue, batches: Iterable[ProducerBatch]) -> None:
        """Put batches back in their places, before all batches that were never sent."""
        with self.lock:
            for batch in batches:
                at = 0
                while at < len(queue.ready) and self._before(queue.ready[at], batch):
                    at += 1
                queue.ready.insert(at, batch)
            self._active[queue] = None

    @staticmethod
    def _before(one: ProducerBatch, other: ProducerBatch) -> bool:
        return (one.serial, one.position) < (other.serial, other.position)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Replace a batch by its parts."""
        with self.lock:
            self._incomplete.pop(batch, None)
            self._incomplete.update(dict.fromkeys(parts))
            self.used += sum(part.size for part in parts) - batch.size

    def release(self, batches: Iterable[ProducerBatch]) -> None:
        """Give back the memory of batches that are done, or will be done before `end_release` is called."""
        with self.lock:
            self._ending = list(batches)
            for batch in self._ending:
                if batch in self._incomplete:
                    del self._incomplete[batch]
                    self.used -= batch.size
            if self._blocked and self.used <= self._memory * LOW_WATER:
                self.changed.notify_all()

    def end_release(self) -> None:
        """Note that all futures and callbacks of the released batches have been called."""
        with self.lock:
            self._ending = []
            self._releases += 1
            if self._flushing or self.closed:
                self.changed.notify_all()

    def withdraw(self) -> list[ProducerBatch]:
        """Take out the batches that are useless because the transaction cannot commit.

        Those are the batches that were never sent; and, where no record can be delivered any more, those that wait for
        a retry.
        """
        found: list[ProducerBatch] = []
        with self.lock:
            # This needs one lock with the state: a moment later these could be batches of the next transaction.
            if self.transactions is None or not self.transactions.withdrawing:
                return found
            doomed = self.transactions.doomed
            for queue in self._active:
                fresh = [batch for batch in queue.ready if doomed or batch.base_sequence == NO_SEQUENCE]
                found += fresh
                queue.ready = deque(batch for batch in queue.ready if batch not in fresh)
                if queue.open is not None:
                    found.append(queue.open)
                    queue.open = None
        return found

    def drain(self) -> list[ProducerBatch]:
        """Take out all batches that are not done, in flight or not, in order to fail them."""
        with self.lock:
            for queue in self._active:
                queue.ready.clear()
                queue.open = None
            self._active.clear()
            return [*self._incomplete, *self._ending]

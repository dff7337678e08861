"""The producer that users hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import Address
from kafkalog.client.errors import ClientError, ClientTimeoutError
from kafkalog.client.producer.accumulator import ProducerClosedError
from kafkalog.client.producer.batches.batch import BatchFuture, DeliveryFuture, failed_future
from kafkalog.client.producer.batches.encoded_batch import EncodedFuture, check_encoded
from kafkalog.client.producer.batches.record_encoding import (
    KEY_OVERHEAD,
    PLAIN_OVERHEAD,
    TIMESTAMP_OVERHEAD,
    Headers,
)
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.ownership import Ownership
from kafkalog.client.producer.partitioner import TopicLayout, partition_for_key
from kafkalog.client.producer.plugins import Plugins
from kafkalog.client.producer.record import (
    OnDelivery,
    ProducerRecord,
    check_timestamp,
    checked_bytes,
    checked_headers,
)
from kafkalog.client.producer.sender.sender import Sender
from kafkalog.client.producer.serialization import apply
from kafkalog.client.producer.transactions.transaction_calls import OpenTransaction, TransactionCalls, needs_id
from kafkalog.client.producer.transactions.transaction_manager import State, TransactionStateError
from kafkalog.client.properties.foreign import warn_about
from kafkalog.client.transactions.errors import TransactionError
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import KafkaError, MessageTooLargeError
from kafkalog.records.batch import HEADER_SIZE

if TYPE_CHECKING:
    from kafkalog.client.producer.arrow.arrow_sender import ArrowSender, Table

GRACE_S = 5.0
"""The time that `Producer.close` waits for the sender's thread to end, once it has told the thread to give everything
up."""
STOPPING_S = 0.1
"""The time that `Producer.close` waits for the sender's thread to end, once all records are done."""


class Producer:
    """Send records to topics in the background. Safe for use by several threads.

    Nothing is sent before the first record. When `send` returns, the record waits to be sent, and its future will have
    the outcome. In a forked process the producer is closed.

        with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
            future = producer.send("words", b"value", key=b"key")
            print(future.result().offset)

    Args:
        config: Kafka's producer properties, or a ProducerConfig.
        counts_refusals: Whether `retries` counts connections that could not be made, too, as in Kafka 0.8.
        repeats_corrupt: Whether a batch that a broker calls corrupt is sent again until the time is over, as Java's
            producer sends it.

    Raises:
        ConfigError: A property cannot be used.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, Any],
        *,
        counts_refusals: bool = False,
        repeats_corrupt: bool = True,
    ) -> None:
        if not isinstance(config, ProducerConfig):
            config = ProducerConfig.from_dict(config)
            warn_about(config.unknown)
        self.config = config
        self._cluster = Cluster(self.config.client)
        self._sender = Sender(
            self.config, self._cluster, counts_refusals=counts_refusals, repeats_corrupt=repeats_corrupt
        )
        self._accumulator = self._sender.accumulator
        self._topics = self._sender.topics
        self._states = self._topics.states
        self._plugins = Plugins.of(self.config)
        self._ignore_keys = self.config.ignore_keys or self._plugins.ignores_keys
        self._max_request_size = self.config.max_request_size
        self._ownership = Ownership(self._accumulator)
        self._transactional = None
        if self.config.transactional_id is not None:
            self._transactional = TransactionCalls(self._sender, self.config.max_block)
        self._sender.start()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> DeliveryFuture:
        """Send a record; the future has the outcome.

        Waits up to `max.block.ms` for metadata and for room in `buffer.memory`.

        Args:
            topic: The topic's name.
            value: Bytes, or what `value.serializer` takes; None is a tombstone in a compacted topic.
            key: Bytes, or what `key.serializer` takes.
            headers: Names and values.
            timestamp: In ms; now unless given.
            partition: Unless given, the partitioner chooses. The built-in one uses the key's hash, as the Java client
                does; records without a key go to one partition for `batch.size` bytes, then to another one.
            on_delivery: Called with the outcome, in the sender's thread.

        Raises:
            ProducerClosedError: The producer is closed.
            TypeError, ValueError: An argument is not possible in a record.
            SerializationError: A serializer has failed.
            TransactionStateError: With a `transactional.id`: no transaction is open. If the transaction has failed,
                its error is raised. All other errors are in the future.
        """
        if self._plugins.present or on_delivery is not None:
            record = ProducerRecord(topic, value, key, headers, timestamp, partition)
            return self._send_record(record, on_delivery)
        return self._send(topic, value, key, headers, timestamp, partition)

    def _send_record(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> DeliveryFuture:
        """Send a record through the configured plug-ins."""
        plugins = self._plugins
        if plugins.interceptors is not None:
            record = plugins.interceptors.on_send(record)
        topic, value, key, headers, timestamp, partition = record
        with plugins.telling():
            key = apply(plugins.serialize_key, topic, "key", key)
            value = apply(plugins.serialize_value, topic, "value", value)
            try:
                if partition is None and plugins.choose is not None:
                    partition = plugins.choose(topic, key, value, self.layout(topic))
                future = self._send(topic, value, key, headers, timestamp, partition)
            except (ProducerClosedError, TransactionError, TransactionStateError):
                raise
            except (ClientError, KafkaError) as error:
                future = self._not_taken(topic, partition, error)
        if on_delivery is not None or plugins.interceptors is not None:
            future.add_done_callback(partial(self._delivered, on_delivery))
        return future

    def _not_taken(self, topic: str, partition: int | None, error: Exception) -> DeliveryFuture:
        """Make the future of a record that was not accepted; the transaction fails with its error, as in Java."""
        self._sender.counters.errors += 1
        self._sender.fail_transaction(error)
        return failed_future(topic, partition, error)

    def _delivered(self, on_delivery: OnDelivery | None, future: DeliveryFuture) -> None:
        error = future.exception()
        metadata = None if error is not None else future.result()
        if self._plugins.interceptors is not None:
            self._plugins.interceptors.on_acknowledgement(metadata, error)
        if on_delivery is not None:
            on_delivery(metadata, error)

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers,
        timestamp: int | None,
        partition: int | None,
    ) -> DeliveryFuture:
        if value is not None and type(value) is not bytes:
            value = checked_bytes(value, "value")
        size = PLAIN_OVERHEAD if value is None else PLAIN_OVERHEAD + len(value)
        if key is not None:
            if type(key) is not bytes:
                key = checked_bytes(key, "key")
            size += KEY_OVERHEAD + len(key)
        if headers:
            headers, more = checked_headers(headers)
            size += more
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        else:
            timestamp = check_timestamp(timestamp)
            size += TIMESTAMP_OVERHEAD
        try:
            if size > self._max_request_size:
                raise MessageTooLargeError(
                    f"a record of up to {size} bytes is larger than max.request.size ({self._max_request_size})"
                )
            state = self._states.get(topic)
            if state is None or not state.queues or (partition is not None and partition >= len(state.queues)):
                state = self._topics.wait_for(topic, partition)
            if partition is not None:
                if partition < 0:
                    raise ValueError(f"partition {partition} is negative")
                queue = self._topics.queue(topic, partition)
            elif key is None or self._ignore_keys:
                queue = state.next_queue(size)
            else:
                queues = state.queues
                queue = queues[partition_for_key(key, len(queues))]
            batch, index = self._accumulator.append(queue, value, timestamp, key, headers, size)
        except (ProducerClosedError, TransactionError, TransactionStateError):
            raise
        except (ClientError, KafkaError) as error:
            return self._not_taken(topic, partition, error)
        return DeliveryFuture(batch, index)

    def send_values(self, topic: str, values: Sequence[bytes], timestamp: int | None = None) -> list[BatchFuture]:
        """Send many records that have only a value, at a fraction of the cost of `send`.

        Returns a future for each batch. Waits and raises as `send` does. Errors that `send` leaves to the future are
        raised here; then some of the values may have been sent. With a serializer, a partitioner or an interceptor it
        costs as much as `send` does.
        """
        if not values:
            return []
        if self._plugins.present:
            return [self.send(topic, value, timestamp=timestamp).alone() for value in values]
        ends = list(accumulate(map(PLAIN_OVERHEAD.__add__, map(len, values))))
        if max(map(len, values)) + PLAIN_OVERHEAD > self._max_request_size:
            raise MessageTooLargeError(
                f"a record of {max(map(len, values))} bytes is larger than max.request.size ({self._max_request_size})"
            )
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        else:
            timestamp = check_timestamp(timestamp)
        state = self._states.get(topic)
        if state is None or not state.queues:
            state = self._topics.wait_for(topic)
        futures = []
        start = 0
        while start < len(values):
            queue = state.next_queue(0)
            batch, index, count = self._accumulator.extend(queue, values, ends, start, timestamp)
            state.sticky.bytes_left -= ends[start + count - 1] - (ends[start - 1] if start else 0)
            futures.append(BatchFuture(batch, index, count))
            start += count
        return futures

    def send_batch(self, topic: str, partition: int, data: bytearray) -> EncodedFuture:
        """Send a record batch (format v2) that the caller has encoded; from then on `data` belongs to the producer.

        It is numbered, sent and retried as the producer's own batches are, and split where the topic takes only smaller
        ones. Waits and raises as `send_values` does.

        Raises:
            ValueError: `data` is not one whole batch of records without a producer id.
        """
        check_encoded(data)
        if len(data) > self._max_request_size + HEADER_SIZE:
            raise MessageTooLargeError(
                f"a batch of {len(data)} bytes is larger than max.request.size ({self._max_request_size})"
            )
        state = self._states.get(topic)
        if state is None or not 0 <= partition < len(state.queues):
            state = self._topics.wait_for(topic, partition)
        return EncodedFuture(self._accumulator.put(self._topics.queue(topic, partition), data))

    def send_arrow(
        self,
        topic: str,
        rows: Table,
        *,
        value: str = "value",
        key: str | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | int | None = None,
    ) -> list[EncodedFuture]:
        """Send each row of an Arrow table or record batch as a record, in order; return a future for each record batch.

        Partitions are chosen as the built-in partitioner of `send` chooses them. Serializers and interceptors are not
        called. Waits and raises as `send_batch` does. Rows before an error may have been sent.

        Args:
            topic: The topic's name.
            rows: The rows.
            value: The name of a column of binary or strings.
            key: The name of such a column.
            headers: The name of a column of lists of structs, which have a key (string) and a value (binary).
            partition: The name of a column of integers (where it is null the key decides), or one partition for all
                rows.
            timestamp: The name of a column of Arrow timestamps or integers in ms (now where it is null), or one time
                for all rows.

        Raises:
            ValueError, TypeError: A column does not exist or cannot be sent; or `partitioner.class` is set, and no
                `partition` is given.
        """
        if self._plugins.choose is not None and partition is None:
            raise ValueError("partitioner.class is asked for each record: send_arrow needs partition= beside it")
        return self._arrow.send(
            topic,
            rows,
            value=value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            ignore_keys=self._ignore_keys,
        )

    @cached_property
    def _arrow(self) -> ArrowSender:
        from kafkalog.client.producer.arrow.arrow_sender import ArrowSender

        return ArrowSender(self.config, self.layout, self.send_batch)

    def layout(self, topic: str, partition: int | None = None) -> TopicLayout:
        """Return a topic's partitions as they are known now, `partition` among them.

        Waits and raises as `send_values` does, where the partitions, or that one, are unknown.
        """
        state = self._states.get(topic)
        if state is None or not state.queues or (partition is not None and partition >= len(state.queues)):
            state = self._topics.wait_for(topic, partition)
        count = len(state.queues)
        return TopicLayout(count, [partition for partition in state.available if partition < count])

    def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Waits as `send` does, and raises errors that `send` leaves to the future. Needs no transaction.
        """
        return list(range(len(self._topics.wait_for(topic, to_send=False).queues)))

    def known_partitions(self) -> dict[str, int]:
        """Return how many partitions are known of each topic that was sent to lately; never wait."""
        return {topic: len(state.queues) for topic, state in list(self._states.items()) if state.queues}

    def look_again(self, bootstrap_servers: Iterable[Address]) -> None:
        """Fetch the metadata of all topics that were sent to lately anew, soon.

        Args:
            bootstrap_servers: The addresses to ask where no known broker answers, in place of those at the start.
        """
        self._cluster.bootstrap_from(bootstrap_servers)
        self._topics.refresh(*self.known_partitions())
        with self._accumulator.lock:
            self._accumulator.rouse()

    def metrics(self) -> dict[str, float]:
        """Return totals since the producer was made, and present usage, under the names of Kafka's producer metrics."""
        return {**self._sender.counters.named(), **self._accumulator.gauges()}

    # Transactions

    def init_transactions(self) -> None:
        """Get a producer id for `transactional.id`, before the first transaction.

        Another producer with the same transactional id is fenced from then on, and its open transaction is aborted.
        Waits up to `max.block.ms`. After a timeout it may be called again.

        Raises:
            ClientTimeoutError: The coordinator has not answered in time.
            FatalTransactionError: The id or `transaction.timeout.ms` is refused.
        """
        self._calls.init()

    def begin_transaction(self) -> None:
        """Begin a transaction: read_committed consumers see the records sent from now on together, or never.

        Raises:
            TransactionStateError: `init_transactions` was not called, or a transaction is open.
            FencedError: Another producer has taken over.
        """
        self._calls.begin()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's positions (the next offsets to read) with the transaction.

        It replaces the consumer's commit. With the consumer's group metadata (KIP-447), the offsets of a member that
        was replaced meanwhile are refused.

        Raises:
            AbortableTransactionError: The offsets are refused.
        """
        self._calls.send_offsets(offsets, group)

    def commit_transaction(self) -> None:
        """Deliver all records and commit the transaction; the outcome is decided when this returns.

        Raises:
            AbortableTransactionError: A record could not be delivered; call `abort_transaction` next.
            FencedError, FatalTransactionError: Only `close` is possible now.
            ClientTimeoutError: `max.block.ms` is over; call it again.
        """
        self._calls.commit()

    def abort_transaction(self) -> None:
        """Abort the transaction: records not sent yet fail with TransactionAbortedError, and sent ones are never seen.

        Raises as `commit_transaction` does. Where it is unknown which batches the brokers have, the next transaction
        gets another epoch.
        """
        self._calls.abort()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a `with` block as a transaction: commit at its end, abort if it raises."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except ClientTimeoutError:
            # The outcome is open where the commit ran out of time. Any other time-out is the block's own; then the
            # transaction is aborted, by `close` at the latest.
            if self._calls.transactions.state is not State.COMMITTING:
                self._abort_quietly()
            raise
        except BaseException:
            self._abort_quietly()
            raise

    def detach(self) -> OpenTransaction:
        """Deliver all records and leave the transaction open for another process, which ends it with `end_transaction`.

        After that only `close` may be called, which leaves the transaction alone. Raises as `commit_transaction` does.
        """
        return self._calls.detach()

    @property
    def _calls(self) -> TransactionCalls:
        self._ownership.check()
        if self._transactional is None:
            raise needs_id()
        if self._sender.on_this_thread:
            raise RuntimeError("a transaction cannot be changed in a delivery callback: it would wait for itself")
        return self._transactional

    def _abort_quietly(self) -> None:
        calls = self._calls
        if calls.transactions.open:
            calls.close(None)

    # Ending

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records sent before this call are delivered or have failed; their futures tell which.

        Raises:
            ClientTimeoutError: They are not done after `timeout` seconds.
        """
        self._ownership.check()
        if self._sender.on_this_thread:
            raise RuntimeError("flush() in a delivery callback would wait for itself")
        self._accumulator.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Send the waiting records, and close; wait `timeout` seconds at most (None: until all are done).

        Records that are not delivered by then fail with ClientTimeoutError. In a delivery callback it does not wait. An
        open transaction is aborted, unless `timeout` is 0: then the broker aborts it after
        `transaction.timeout.ms`.
        """
        if self._ownership.is_lost:
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._transactional is not None and timeout != 0 and not self._sender.on_this_thread:
            self._transactional.close(timeout)
        self._accumulator.close()
        if self._sender.on_this_thread:
            # The sender still has to send the rest; it closes the cluster's connections then.
            return
        if self._accumulator.wait_until_empty(None if deadline is None else max(deadline - time.monotonic(), 0)):
            # What the sender may still ask for is of no use any more.
            self._sender.abort(ProducerClosedError("the producer was closed"), STOPPING_S)
        else:
            late = ClientTimeoutError(f"not delivered within the {timeout} s that close() allowed")
            self._sender.abort(late, GRACE_S)
        self._plugins.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A user who interrupts the program does not want to wait for the rest.
        self.close(0.0 if kind is not None and not issubclass(kind, Exception) else None)

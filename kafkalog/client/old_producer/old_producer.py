"""The producer of Kafka 0.7 and 0.8: sync or async, over `kafkalog.client.producer`.

With `producer.type=sync` a call of `send` ends when its messages are sent. With `async` messages wait in a queue. A
thread takes up to `batch.num.messages` of them, or what came within `queue.buffering.max.ms`, and sends them. Messages
that fail there are logged and dropped, as in Kafka.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafkalog.client.closing import Closing
from kafkalog.client.config import ClientConfig, addresses
from kafkalog.client.errors import ClientError
from kafkalog.client.old_producer.config import ASYNC, OldProducerConfig
from kafkalog.client.old_producer.discovery import Discovery
from kafkalog.client.old_producer.metrics import OldProducerCounters
from kafkalog.client.old_producer.partitioning import chooser
from kafkalog.client.producer import DeliveryFuture, Producer, ProducerClosedError
from kafkalog.client.producer.serialization import SerializationError
from kafkalog.client.properties.foreign import warn_about
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class FailedToSendMessageError(ClientError):
    """Messages were not sent within `message.send.max.retries` retries; the cause is the error of the first."""


class QueueFullError(ClientError):
    """The queue was full for `queue.enqueue.timeout.ms`: the message was not taken."""


class KeyedMessage(NamedTuple):
    """A message to a topic."""

    topic: str
    message: Any
    """The value that `serializer.class` serializes."""
    key: Any = None
    """The key that `key.serializer.class` serializes."""
    part_key: Any = None
    """Chooses the partition in place of the key; it is not sent."""

    @property
    def partition_key(self) -> Any:
        """The key that the partitioner gets; None where any partition will do."""
        return self.key if self.part_key is None else self.part_key


class OldProducer(Closing):
    """Send messages as producers of Kafka 0.7 and 0.8 do. Safe for use by several threads.

    Messages without a key are balanced over the partitions that have a leader. A partition is chosen by the hash code
    that Java has for the key, so programs in Java and these choose the same.

    Args:
        config: The settings, or properties of them; `metadata.broker.list` or `zk.connect` at least.

    Raises:
        ConfigError: A property cannot have its value.
        ZooKeeperError: With `zk.connect`: ZooKeeper does not answer, or knows no broker.
    """

    def __init__(self, config: OldProducerConfig | Mapping[str, Any]) -> None:
        self.config = config = config if isinstance(config, OldProducerConfig) else OldProducerConfig.from_dict(config)
        self._choose = chooser(config.partitioner)
        self._began = time.monotonic()
        self._counters = OldProducerCounters()
        self._lock = threading.Lock()
        self._producers: dict[bool, Producer] = {}
        """The producers, by whether they compress."""
        self._senders_changed = threading.Condition()
        self._senders = 0
        """The number of calls of `send` that are under way."""
        self._is_closed = False
        warn_about(config.producer(config.broker_list or "localhost:1", compress=False).unknown)
        if config.instead:
            listed = "; ".join(f"{key} ({what})" for key, what in sorted(config.instead.items()))
            logger.warning("without effect here: %s", listed)
        self._discovery: Discovery | None = None
        if config.zookeeper_connect:
            protocol = ClientConfig.from_dict(config.rest).security_protocol
            self._discovery = Discovery(config.open_session, protocol, self._cluster_changed)
        self._queue: queue.Queue[KeyedMessage | None] = queue.Queue(config.buffering_max_messages)
        self._thread: threading.Thread | None = None
        if config.producer_type == ASYNC:
            self._thread = threading.Thread(target=self._send_queued, name="kafkalog-old-producer", daemon=True)
            self._thread.start()

    def send(self, *messages: KeyedMessage) -> None:
        """Send messages; with `producer.type=async`, put them into the queue.

        Raises:
            ProducerClosedError: The producer is closed.
            FailedToSendMessageError: With sync: not all messages were sent. With acks 0 nobody knows.
            QueueFullError: With async: the queue stayed full. The messages before this one were taken.
            TypeError: With sync: the partitioner does not take the key. The messages before this one have ended.
        """
        with self._senders_changed:
            if self._is_closed:
                raise ProducerClosedError("the producer is closed")
            self._senders += 1
        try:
            for message in messages:
                self._counters.given(message.topic)
            if self._thread is None:
                self._send_now(messages)
            else:
                for message in messages:
                    self._enqueue(message)
        finally:
            with self._senders_changed:
                self._senders -= 1
                self._senders_changed.notify_all()

    def metrics(self) -> dict[str, float]:
        """Return totals since the producer was made, and present values, under the names of Kafka 0.8.2's metrics.

        Tags stand at the end of a name: `MessagesPerSec.Count,topic=visits`.
        """
        with self._lock:
            producers = list(self._producers.values())
        totals: Counter[str] = Counter()
        for producer in producers:
            totals.update(producer.metrics())
        return self._counters.named(time.monotonic() - self._began, self._queue.qsize(), totals)

    def close(self) -> None:
        """Send what waits, and end the producer."""
        with self._senders_changed:
            if self._is_closed:
                return
            self._is_closed = True
            # What a `send` puts into the queue after its end would never be sent.
            self._senders_changed.wait_for(lambda: not self._senders)
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        if self._discovery is not None:
            self._discovery.close()
        for producer in self._producers.values():
            producer.close()

    # Sending

    def _send_now(self, messages: Sequence[KeyedMessage]) -> None:
        futures: list[DeliveryFuture] = []
        failure: Exception | None = None
        try:
            futures += map(self._sent, messages)
        except Exception as error:
            # A user's partitioner or serializer raises what it likes.
            failure = error
        # Those before it are on their way: the call ends when all have ended.
        errors = [each for future in futures if (each := future.exception()) is not None]
        if failure is None and not errors:
            return
        self._counters.has_failed()
        if failure is not None and not isinstance(failure, ClientError | KafkaError):
            raise failure
        failure = errors[0] if errors else failure
        raise FailedToSendMessageError(
            f"Failed to send messages after {self.config.send_max_retries} tries: {failure}"
        ) from failure

    def _sent(self, message: KeyedMessage) -> DeliveryFuture:
        producer = self._producer(message.topic)
        if self._discovery is not None:
            self._discovery.watch(message.topic)
        key, partition = message.partition_key, None
        if key is not None:
            partition = self._choose(key, producer.layout(message.topic).partitions)
        try:
            return producer.send(message.topic, message.message, message.key, partition=partition)
        except SerializationError:
            self._counters.not_serialized()
            raise

    def _producer(self, topic: str) -> Producer:
        compress = self.config.is_compressed(topic)
        with self._lock:
            if compress not in self._producers:
                brokers = self.config.broker_list if self._discovery is None else self._discovery.bootstrap_servers
                self._producers[compress] = Producer(
                    self.config.producer(brokers, compress=compress), counts_refusals=True
                )
            return self._producers[compress]

    def _cluster_changed(self, bootstrap_servers: str, partitions: Mapping[str, int]) -> bool:
        """Let the producers look again; return whether they do not know all partitions yet.

        It runs on the thread of the discovery.
        """
        with self._lock:
            producers = list(self._producers.values())
        behind = False
        for producer in producers:
            producer.look_again(addresses(bootstrap_servers))
            behind |= any(count < partitions.get(topic, 0) for topic, count in producer.known_partitions().items())
        return behind

    # The queue

    def _enqueue(self, message: KeyedMessage) -> None:
        timeout = self.config.enqueue_timeout
        try:
            self._queue.put(message, block=timeout != 0, timeout=timeout / 1000 if timeout > 0 else None)
        except queue.Full:
            self._counters.was_dropped(message.topic)
            raise QueueFullError(
                f"Event queue is full of unsent messages, could not send a message to topic {message.topic}"
            ) from None

    def _send_queued(self) -> None:
        batch: list[KeyedMessage] = []
        due = 0.0
        while True:
            try:
                message = self._queue.get(timeout=max(0.0, due - time.monotonic()) if batch else None)
            except queue.Empty:
                self._send_batch(batch)
                continue
            if message is None:
                self._send_batch(batch)
                return
            if not batch:
                due = time.monotonic() + self.config.buffering_max
            batch.append(message)
            if len(batch) >= self.config.batch_num_messages:
                self._send_batch(batch)

    def _send_batch(self, batch: list[KeyedMessage]) -> None:
        """Send messages and forget them. Those that fail are logged: nobody waits for them."""
        futures: list[tuple[KeyedMessage, DeliveryFuture]] = []
        failed: list[tuple[KeyedMessage, Exception]] = []
        for message in batch:
            try:
                futures.append((message, self._sent(message)))
            except Exception as error:
                # What a user's partitioner or serializer raises must not end the thread.
                failed.append((message, error))
        failed += [(message, each) for message, future in futures if (each := future.exception()) is not None]
        if failed:
            self._counters.has_failed()
            first, reason = failed[0]
            logger.error("%d messages were not sent; the first one, to topic %s: %s", len(failed), first.topic, reason)
        batch.clear()

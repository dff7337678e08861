"""The thread that sends batches to their partitions' leaders, pipelined, with retries where they may help.

`sequences` numbers the batches of an idempotent producer. After a failure a batch waits until nothing of its partition
is in flight, and then goes before everything else. So the order is kept although several requests are in flight.
"""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Sequence

from kafkalog.client.backoff import client_backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, ClientTimeoutError, ConnectionFailedError, about, is_retriable
from kafkalog.client.network.waker import Waker
from kafkalog.client.producer.accumulator import Accumulator, ProducerClosedError
from kafkalog.client.producer.batches.batch import UNKNOWN_OFFSET, ProducerBatch
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import NO_LEADER, PartitionQueue
from kafkalog.client.producer.sender.channels import Channel
from kafkalog.client.producer.sender.metrics import Counters
from kafkalog.client.producer.sender.sequences import Sequences
from kafkalog.client.producer.sender.topic_metadata import Topics
from kafkalog.client.producer.sender.transaction_registration import TransactionRegistration
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest
from kafkalog.protocol.messages.produce import TopicProduceData as TopicData
from kafkalog.records.batch import NO_SEQUENCE

MIN_PRODUCE_VERSION = 3
"""The first version that carries record batch v2."""
SENDING_S = 0.02
"""The time that brokers may take to receive what is sent to them in one turn. A broker that keeps up has received it by
then. Without this time, each piece of a request would take a turn of its own."""
_METADATA_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
_SEQUENCE_ERRORS = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)

logger = logging.getLogger(__name__)


class Sender:
    """Send in a thread of its own, from `start` until the accumulator is closed and empty.

    Args:
        config: The producer's configuration.
        cluster: The cluster.
        counts_refusals: Whether `retries` counts connections that could not be made, as in Kafka 0.8.
        repeats_corrupt: Whether a batch that a broker calls corrupt is sent again.

    Attributes:
        registration: The sender's part in transactions; None for a producer without a `transactional.id`.
    """

    def __init__(
        self, config: ProducerConfig, cluster: Cluster, *, counts_refusals: bool = False, repeats_corrupt: bool = True
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._counts_refusals = counts_refusals
        self._final = () if repeats_corrupt else (ErrorCode.CORRUPT_MESSAGE,)
        self._backoff = client_backoff(config.client)
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, selectors.EVENT_READ)
        self.accumulator = Accumulator(config, self.wake)
        self.topics = Topics(config, cluster, self.accumulator)
        self.counters = Counters()
        self._channels: dict[int, Channel] = {}
        self._abort: Exception | None = None
        self.registration = (
            TransactionRegistration(config, cluster, self.accumulator, self.topics)
            if config.transactional_id is not None
            else None
        )
        self.sequences = Sequences(config, cluster, self.topics, self.registration)
        self._thread = threading.Thread(target=self._run, name="kafkalog-producer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """End the thread's wait; from any thread."""
        self._waker.wake()

    def abort(self, error: Exception, patience: float) -> None:
        """End the thread, which makes all batches that are not done fail with `error`; wait `patience` seconds for it.

        It may be waiting for an answer of the cluster. If it is connecting for that, it cannot be interrupted: then the
        thread ends when the connection is made or has failed.
        """
        self._abort = error
        self.wake()
        self._cluster.close()
        self._thread.join(patience)

    @property
    def on_this_thread(self) -> bool:
        """Return whether the caller is a delivery callback, which runs in the sender's thread."""
        return threading.current_thread() is self._thread

    @property
    def busy(self) -> bool:
        """Return whether some request has not been answered, even if its batches were given up; from any thread."""
        return any(channel.busy for channel in list(self._channels.values()))

    # The loop

    def _run(self) -> None:
        self.accumulator.sender_thread = threading.get_ident()
        try:
            while self._turn():
                pass
        except BaseException as error:
            # Whatever has failed here, threads that wait for a record must be told.
            if self._abort is None:
                logger.exception("the producer's thread failed")
            self._abort = self._abort or ClientError(f"the producer failed: {error!r}")
        finally:
            self.accumulator.close()
            self._fail_all(self._abort or ProducerClosedError("the producer was closed"))
            self.topics.close()
            for channel in self._channels.values():
                channel.close()
            self._cluster.close()
            self._selector.close()
            self._waker.close()

    def _turn(self) -> bool:
        """Do all that can be done, then wait for something to happen; return whether there may be more to do."""
        now = time.monotonic()
        self._withdraw()
        plan = self.accumulator.take(now, self._config.idempotence, self.sequences.identified, self._free)
        if self._abort is not None or plan.finished:
            return False
        self._give_up(plan.expired)
        until = time.monotonic() + SENDING_S
        for node_id, batches in plan.requests.items():
            self._send(node_id, batches, until)
        again = bool(plan.requests)
        if plan.needs_producer_id and self.sequences.request_at <= now:
            again |= self._request_producer_id(min(plan.expires_at, self._channel_deadline()))
        if plan.unregistered and self.registration is not None and self.registration.next_at <= now:
            self.registration.register(plan.unregistered, min(plan.expires_at, self._channel_deadline()))
        again |= self.topics.refresh_if_due(plan.leaderless, min(plan.expires_at, self._channel_deadline()))
        self._expire_in_flight(now)
        wake_at = min(plan.wake_at, plan.expires_at, self.topics.due(plan.leaderless), self._channel_deadline())
        if plan.needs_producer_id:
            wake_at = min(wake_at, self.sequences.request_at)
        if plan.unregistered and self.registration is not None:
            wake_at = min(wake_at, self.registration.next_at)
        self._wait(0.0 if again else wake_at)
        return True

    def _wait(self, wake_at: float) -> None:
        ready = [channel for channel in self._channels.values() if channel.has_response()]
        timeout = None if wake_at == float("inf") else max(wake_at - time.monotonic(), 0)
        for key, events in self._selector.select(0 if ready else timeout):
            if key.data is None:
                self._waker.clear()
                continue
            if events & selectors.EVENT_WRITE:
                self._send_rest(key.data)
            if events & selectors.EVENT_READ and key.data not in ready:
                ready.append(key.data)
        for channel in ready:
            if channel.connected:
                self._receive(channel)

    # Sending

    def _free(self, node_id: int) -> float:
        channel = self._channels.get(node_id)
        return 0.0 if channel is None else channel.free_at()

    def _send(self, node_id: int, batches: list[ProducerBatch], until: float) -> None:
        """Send batches to their leader, and wait until `until` (`time.monotonic`) for it to receive them."""
        if node_id not in self._channels:
            self._channels[node_id] = Channel(node_id, self._config, self._cluster, self._selector, self.wake)
        channel = self._channels[node_id]
        try:
            if not channel.prepare():
                self._put_back(batches)
                return
        except (ClientError, KafkaError) as error:
            self._unreached(channel, error, batches)
            return
        encoded = []
        for batch in batches:
            self.sequences.number(self._queue(batch), batch)
            try:
                batch.encode(self._config.compression, self._config.compression_level, self.registration is not None)
                encoded.append(batch)
            except Exception as error:
                # The batch cannot be encoded; the others can go without it.
                self._refuse(self._queue(batch), batch, error)
        if not encoded:
            return
        topics: dict[str, list[PartitionProduceData]] = {}
        counters = self.counters
        counters.requests += 1
        for batch in encoded:
            counters.retries += batch.count if batch.attempts else 0
            counters.batch_bytes += len(batch.encoded or b"")
            batch.attempts += 1
            batch.in_doubt = batch.base_sequence != NO_SEQUENCE
            data = PartitionProduceData(index=batch.partition, records=batch.encoded)
            topics.setdefault(batch.topic, []).append(data)
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=int(self._config.client.request_timeout * 1000),
            topic_data=[TopicData(name=name, partition_data=data) for name, data in topics.items()],
        )
        try:
            answered, patience = self._config.acks != 0, max(until - time.monotonic(), 0)
            sent = channel.send(request, encoded, MIN_PRODUCE_VERSION, answered=answered, patience=patience)
        except (ClientError, KafkaError) as error:
            self._lost(channel, error, encoded)
            return
        if sent and not answered:
            self._finish(encoded, None)

    def _send_rest(self, channel: Channel) -> None:
        try:
            sent = channel.send_rest()
        except (ClientError, KafkaError) as error:
            self._lost(channel, error, [])
            return
        for batch in sent:
            if batch.done:
                self._remove_in_flight(batch)
        self._finish([batch for batch in sent if not batch.done], None)

    def _request_producer_id(self, limit: float) -> bool:
        """Ask for a producer id, until about `limit`; return whether there is one now."""
        try:
            return self.sequences.request_producer_id(limit)
        except (ClientError, KafkaError) as error:
            self._fail_all(error)
            return False

    # Transactions

    def _withdraw(self) -> None:
        """Fail the batches that are useless because the transaction cannot commit."""
        if self.registration is None:
            return
        fatal = self.registration.fatal
        if fatal is None:
            batches, error = self.registration.withdraw()
            if batches:
                self._finish(batches, error)
        elif self.accumulator.incomplete:
            self._fail_all(fatal)

    def _break_sequence(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Note that a numbered batch is not sent any more: sequences may differ. A transaction's abort settles that."""
        if self.registration is None:
            queue.reset |= batch.base_sequence != NO_SEQUENCE

    def fail_transaction(self, error: Exception, *, batch: bool = False) -> None:
        """Fail the transaction, if there is one; `batch` says that the error is of a batch that a leader may have."""
        if self.registration is not None:
            self.registration.fail(error, batch=batch)

    # Receiving

    def _receive(self, channel: Channel) -> None:
        while True:
            try:
                received = channel.receive()
            except (ClientError, KafkaError) as error:
                self._lost(channel, error, [])
                return
            if received is None:
                return
            batches, response = received
            answers: dict[tuple[str, int], PartitionProduceResponse] = {
                (topic.name, each.index): each for topic in response.responses for each in topic.partition_responses
            }
            self.topics.take_leaders(response)
            self._settle(channel.node_id, batches, answers)
            if not channel.has_response():
                return

    def _settle(
        self,
        node_id: int,
        batches: Sequence[ProducerBatch],
        answers: dict[tuple[str, int], PartitionProduceResponse],
    ) -> None:
        """Handle the answers of a broker about batches."""
        done: list[tuple[ProducerBatch, PartitionProduceResponse]] = []
        for batch in batches:
            answer = answers.get((batch.topic, batch.partition))
            if answer is None:
                self._try_again(batch, ConnectionFailedError(f"no answer for {batch.name}"))
            elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                done.append((batch, answer))
            else:
                self._refused(node_id, batch, answer)
        for batch, _ in done:
            self._remove_in_flight(batch)
            self._queue(batch).acknowledge(batch)
        self.accumulator.release(batch for batch, _ in done)
        for batch, answer in done:
            if not batch.done:
                self.counters.batches += 1
                self.counters.records += batch.count
                batch.complete(answer.base_offset, answer.log_append_time_ms, None)
        self.accumulator.end_release()

    def _refused(self, node_id: int, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        code = answer.error_code
        # Brokers give no reason with this error, and an application writes to several topics.
        is_unauthorized = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        error = about(code, f"topic {batch.topic}") if is_unauthorized else error_for(code, answer.error_message)
        if batch.done:
            self._remove_in_flight(batch)
            return
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
            return
        queue = self._queue(batch)
        # The response names the new leader, or another one did, or metadata that was fetched meanwhile. A batch that
        # is sent from one broker to another and back pauses.
        at_once = code in _METADATA_ERRORS and queue.leader not in (NO_LEADER, node_id) and not batch.hurried
        if code in _METADATA_ERRORS and not at_once:
            self._cluster.doubt_leader(TopicPartition(batch.topic, batch.partition))
            self.topics.refresh(batch.topic)
        if code in _SEQUENCE_ERRORS and batch.base_sequence != NO_SEQUENCE:
            # The broker sees a gap before the batch: either an earlier batch must be sent again, or the broker has lost
            # its state.
            batch.in_doubt = False
            if not queue.has_before(batch):
                if self.registration is not None:
                    self._refuse(queue, batch, error)
                    return
                queue.reset = True
            self._try_again(batch, error)
        elif is_retriable(error) and code not in self._final:
            self._try_again(batch, error, at_once=at_once)
        else:
            self._refuse(queue, batch, error)

    def _refuse(self, queue: PartitionQueue, batch: ProducerBatch, error: Exception) -> None:
        """Fail a batch that is not in the log. The batches after it would leave a gap, so a new sequence begins."""
        self._remove_in_flight(batch)
        self._break_sequence(queue, batch)
        self._finish([batch], error)

    def _split(self, batch: ProducerBatch) -> None:
        queue = self._queue(batch)
        try:
            parts = batch.split(batch.serial, max(batch.size // 2, 1))
        except Exception as error:
            # A caller has encoded these records, and they are malformed.
            self._refuse(queue, batch, error)
            return
        self._remove_in_flight(batch)
        self.counters.splits += 1
        self.accumulator.replace(batch, parts)
        self.accumulator.requeue(queue, parts)

    def _try_again(self, batch: ProducerBatch, error: Exception, *, at_once: bool = False) -> None:
        queue = self._queue(batch)
        queue.last_error = error
        self._remove_in_flight(batch)
        if batch.done:
            return
        now = time.monotonic()
        late = now >= batch.created + self._config.delivery_timeout
        doomed = self.registration is not None and self.registration.transactions.doomed
        if late or batch.attempts > self._config.retries or doomed:
            self._break_sequence(queue, batch)
            (self._give_up if late else self._finish)([batch], error)
            return
        batch.retry_at = now if at_once else now + self._backoff.pause(batch.attempts)
        batch.hurried = at_once
        self.accumulator.requeue(queue, [batch])

    # Failing

    def _unreached(self, channel: Channel, error: Exception, batches: list[ProducerBatch]) -> None:
        """Put back batches that were not sent, because no connection could be made.

        That counts as one of the `retries` only in the producers of Kafka 0.8.
        """
        counted = self._counts_refusals
        for batch in batches:
            batch.attempts += counted
        self._lost(channel, error, batches if counted or not is_retriable(error) else [])
        waiting = [batch for batch in batches if not (counted or batch.done)]
        self.topics.refresh(*{batch.topic for batch in waiting})
        self._put_back(waiting, error)

    def _put_back(self, batches: Sequence[ProducerBatch], error: Exception | None = None) -> None:
        """Put batches back that were not sent."""
        for batch in batches:
            queue = self._queue(batch)
            queue.last_error = error or queue.last_error
            self._remove_in_flight(batch)
            self.accumulator.requeue(queue, [batch])

    def _lost(self, channel: Channel, error: Exception, unsent: list[ProducerBatch]) -> None:
        """Handle a lost connection: the outcome of its batches is uncertain."""
        batches = [*channel.fail(), *unsent]
        self.topics.refresh(*{batch.topic for batch in batches})
        for batch in batches:
            if is_retriable(error):
                self._try_again(batch, error)
            elif batch.done:
                self._remove_in_flight(batch)
            else:
                self._refuse(self._queue(batch), batch, error)

    def _expire_in_flight(self, now: float) -> None:
        for channel in self._channels.values():
            if channel.timed_out(now):
                text = f"no response from {channel.name} in {self._config.client.request_timeout * 1000:.0f} ms"
                self._lost(channel, ClientTimeoutError(f"{text} (request.timeout.ms)"), [])
                continue
            latest = now - self._config.delivery_timeout
            late = [batch for batch in channel.batches() if not batch.done and batch.created <= latest]
            for batch in late:
                # The outcome is unknown. The sequence goes on only once nothing is in flight.
                self._break_sequence(self._queue(batch), batch)
            self._give_up(late)
            if channel.sends_in_vain:
                # The partitions' next batches must not wait for a broker that may read on in a day.
                self._lost(channel, ConnectionFailedError(f"{channel.name} did not take a request in time"), [])

    def _channel_deadline(self) -> float:
        deadline = float("inf")
        for channel in self._channels.values():
            deadline = min(deadline, channel.deadline())
            for batch in channel.batches():
                deadline = min(deadline, batch.created + self._config.delivery_timeout if not batch.done else deadline)
        return deadline

    def _give_up(self, batches: list[ProducerBatch], reason: Exception | None = None) -> None:
        for batch in batches:
            why = reason or self._queue(batch).last_error or self.topics.last_error
            state = "sent but not acknowledged" if batch.attempts else "waiting to be sent"
            error = ClientTimeoutError(
                f"{batch.count} records for {batch.name} {state} for {self._config.delivery_timeout * 1000:.0f} ms "
                f"(delivery.timeout.ms){f': {why}' if why else ''}"
            )
            self._finish([batch], error)

    def _finish(self, batches: list[ProducerBatch], error: Exception | None) -> None:
        for batch in batches if error is None else ():
            self._remove_in_flight(batch)
        if error is not None and batches:
            # This comes first: no thread may find all batches done and the transaction without an error.
            self.fail_transaction(error, batch=any(batch.base_sequence != NO_SEQUENCE for batch in batches))
        self.accumulator.release(batches)
        for batch in batches:
            if error is not None:
                self.counters.errors += batch.count
            else:
                self.counters.batches += 1
                self.counters.records += batch.count
            batch.complete(UNKNOWN_OFFSET, -1, error)
        self.accumulator.end_release()

    def _fail_all(self, error: Exception) -> None:
        batches = [batch for batch in self.accumulator.drain() if not batch.done]
        for channel in self._channels.values():
            for batch in channel.fail():
                self._remove_in_flight(batch)
        self._finish(batches, error)

    def _queue(self, batch: ProducerBatch) -> PartitionQueue:
        return self.topics.queue(batch.topic, batch.partition)

    def _remove_in_flight(self, batch: ProducerBatch) -> None:
        """Remove a batch from those in flight."""
        in_flight = self._queue(batch).in_flight
        if batch in in_flight:
            in_flight.remove(batch)

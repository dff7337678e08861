"""The clients that write, with librdkafka and with our producer."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

import kafkalog.client.producer as own
from kafkalog.client.errors import ClientError
from kafkalog.client.producer import DeliveryFuture
from tests.history.events import Action, Outcome
from tests.history.plan import ClientSpec
from tests.history.recording import Ending, Recorder

QUICK = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 4,
}
"""A broker of a history is down for less than a second, or another one leads soon."""
TIMEOUT_MS = 3_000
"""The time-out of requests: a broker that is paused answers none."""
IN_FLIGHT = 40
ANSWER_S = 10.0


def settings(bootstrap: str, **more: str | int | bool) -> dict[str, Any]:
    """Return properties of librdkafka; an underscore stands for a dot."""
    return {
        "bootstrap.servers": bootstrap,
        "socket.timeout.ms": TIMEOUT_MS,
        **QUICK,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


class Sending:
    """A librdkafka producer whose records are events; `in_flight` of them are unanswered."""

    def __init__(self, producer: Producer, recorder: Recorder) -> None:
        self.producer = producer
        self._recorder = recorder
        self.in_flight = 0

    def send(self, topic: str, partition: int, transaction: str = "", source: str = "") -> None:
        """Send a record with a new name.

        Raises:
            KafkaException: librdkafka refuses the record.
        """
        record = self._recorder.name("r")
        what: dict[str, str | int] = {"topic": topic, "partition": partition, "record": record}
        self._recorder.tell(Action.SEND, Outcome.INVOKE, **what, transaction=transaction, source=source)

        def delivered(error: KafkaError | None, message: Any) -> None:
            self.in_flight -= 1
            if error is None:
                # Where an earlier attempt was the one that succeeded, librdkafka may not know the offset.
                offset = message.offset()
                self._recorder.tell(Action.SEND, Outcome.OK, **what, offset=-1 if offset is None else max(offset, -1))
            else:
                # Also where it was purged from the queue: it may lie there to be sent once more.
                self._recorder.tell(Action.SEND, Outcome.UNKNOWN, **what, error=error.str())

        try:
            self.producer.produce(topic, record.encode(), partition=partition, on_delivery=delivered)
        except (KafkaException, BufferError) as error:
            self._recorder.tell(Action.SEND, Outcome.FAIL, **what, error=str(error))
            raise
        self.in_flight += 1


def write(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Write with an idempotent producer of librdkafka: bursts to random partitions."""
    chance = random.Random(spec.chance)
    linger = chance.choice([0, 2, 10])
    producer = Producer(settings(bootstrap, enable_idempotence=True, linger_ms=linger))
    sending = Sending(producer, recorder)
    while not ending.asked:
        for _ in range(chance.randint(1, 8) if sending.in_flight < IN_FLIGHT else 0):
            sending.send(spec.source, chance.randrange(spec.partitions))
        producer.poll(chance.choice([0.001, 0.01]))
    producer.flush()


def write_own(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Write with our idempotent producer."""
    chance = random.Random(spec.chance)
    room = threading.Semaphore(IN_FLIGHT)

    def delivered(what: dict[str, str | int]) -> Callable[[DeliveryFuture], None]:
        def tell(future: DeliveryFuture) -> None:
            room.release()
            error = future.exception()
            if error is None:
                recorder.tell(Action.SEND, Outcome.OK, **what, offset=future.result().offset)
            else:
                recorder.tell(Action.SEND, Outcome.UNKNOWN, **what, error=repr(error))

        return tell

    config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": chance.choice([0, 5])}
    config |= {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 10}
    config |= {"request.timeout.ms": TIMEOUT_MS}
    with own.Producer(config) as producer:
        while not ending.asked:
            if not room.acquire(timeout=0.1):
                continue
            partition, record = chance.randrange(spec.partitions), recorder.name("r")
            what: dict[str, str | int] = {"topic": spec.source, "partition": partition, "record": record}
            recorder.tell(Action.SEND, Outcome.INVOKE, **what)
            future = producer.send(spec.source, record.encode(), partition=partition)
            future.add_done_callback(delivered(what))
            if chance.random() < 0.2:
                try:
                    future.result(timeout=0.01)
                except (ClientError, TimeoutError):
                    continue
        producer.flush()


class FencedError(RuntimeError):
    """Another client has the transactional id now, so this one must end."""


class HangingError(RuntimeError):
    """A call of librdkafka hangs: this client must end as if killed, and be replaced."""


_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class Transactions:
    """A transactional producer of librdkafka, recreated when it cannot continue; FencedError if it is fenced."""

    def __init__(self, spec: ClientSpec, bootstrap: str, recorder: Recorder) -> None:
        self._recorder = recorder
        self._settings = settings(
            bootstrap,
            transactional_id=f"{spec.source} {spec.name}",
            transaction_timeout_ms=spec.transaction_timeout_ms,
            # librdkafka refuses one that is longer than the transaction's.
            socket_timeout_ms=min(TIMEOUT_MS, spec.transaction_timeout_ms),
            linger_ms=1,
        )
        self.sending = self._begin()

    def _begin(self) -> Sending:
        producer = Producer(self._settings)
        until_done(lambda: producer.init_transactions(ANSWER_S))
        return Sending(producer, self._recorder)

    def begin(self) -> str:
        """Begin a transaction; return its name."""
        self.sending.producer.begin_transaction()
        return self._recorder.name("t")

    def commit(self, name: str) -> bool:
        """Commit; tell whether this certainly succeeded. If not, the transaction was aborted as far as possible."""
        self._recorder.tell(Action.COMMIT, Outcome.INVOKE, transaction=name)
        try:
            until_done(lambda: self.sending.producer.commit_transaction(ANSWER_S))
        except KafkaException as error:
            self._recorder.tell(Action.COMMIT, Outcome.UNKNOWN, transaction=name, error=str(error))
            self.recover(name, error)
            return False
        self._recorder.tell(Action.COMMIT, Outcome.OK, transaction=name)
        return True

    def abort(self, name: str) -> None:
        """Abort the transaction; if that fails, recreate the producer, which also aborts it."""
        self._recorder.tell(Action.ABORT, Outcome.INVOKE, transaction=name)
        try:
            until_done(lambda: self.sending.producer.abort_transaction(ANSWER_S))
        except KafkaException as error:
            self._recorder.tell(Action.ABORT, Outcome.UNKNOWN, transaction=name, error=str(error))
            self._anew(error)
        else:
            self._recorder.tell(Action.ABORT, Outcome.OK, transaction=name)

    def recover(self, name: str, error: Exception) -> None:
        """Recover from a failed call: abort if librdkafka requires it, else recreate the producer."""
        if isinstance(error, KafkaException) and error.args[0].fatal():
            self._anew(error)
        else:
            self.abort(name)

    def _anew(self, error: KafkaException) -> None:
        if error.args[0].code() in _FENCED:
            raise FencedError(str(error)) from error
        self.sending = self._begin()


def until_done(call: Callable[[], object]) -> None:
    """Retry while librdkafka says that the same call may succeed."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def transact(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Write transactions of a few records; abort a quarter of them."""
    chance = random.Random(spec.chance)
    transactions = Transactions(spec, bootstrap, recorder)
    while not ending.asked:
        name = transactions.begin()
        try:
            for _ in range(chance.randint(1, 8)):
                transactions.sending.send(spec.source, chance.randrange(spec.partitions), name)
                if chance.random() < 0.3:
                    transactions.sending.producer.poll(0.005)
        except (KafkaException, BufferError) as error:
            transactions.recover(name, error)
            continue
        if chance.random() < 0.25:
            if chance.random() < 0.5:
                transactions.sending.producer.flush(ANSWER_S)
            transactions.abort(name)
        else:
            transactions.commit(name)

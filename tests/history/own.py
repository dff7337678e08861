"""The clients of our own library that are in a group or use transactions."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import suppress

from kafkalog.client.consumer import Consumer, RebalanceListener
from kafkalog.client.errors import ClientError, ClientTimeoutError
from kafkalog.client.producer import DeliveryFuture, Producer
from kafkalog.client.transactions.errors import FatalTransactionError
from kafkalog.client.transactions.errors import FencedError as OwnFencedError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import KafkaError
from tests.history.consuming import POLL_S, SESSION_TIMEOUT_MS
from tests.history.events import Action, Outcome
from tests.history.plan import ClientSpec
from tests.history.producing import TIMEOUT_MS, FencedError
from tests.history.recording import Ending, Recorder

QUICK = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 10,
    "request.timeout.ms": TIMEOUT_MS,
}


def transact(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Write transactions of a few records with our producer; abort a quarter of them."""
    chance = random.Random(spec.chance)
    while not ending.asked:
        with _producer(spec, bootstrap) as producer, suppress(FatalTransactionError):
            _again(producer.init_transactions)
            while not ending.asked:
                _one_transaction(spec, producer, recorder, chance)


def _producer(spec: ClientSpec, bootstrap: str) -> Producer:
    config = {"transactional.id": f"{spec.source} {spec.name}", "transaction.timeout.ms": spec.transaction_timeout_ms}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **config, **QUICK})


def _again(call: Callable[[], object]) -> None:
    """Retry after time-outs; raise the history's FencedError if another producer has taken over."""
    while True:
        try:
            call()
            return
        except ClientTimeoutError:
            continue
        except OwnFencedError as error:
            raise FencedError(str(error)) from error


def _one_transaction(spec: ClientSpec, producer: Producer, recorder: Recorder, chance: random.Random) -> None:
    producer.begin_transaction()
    name = recorder.name("t")
    for _ in range(chance.randint(1, 8)):
        partition, record = chance.randrange(spec.partitions), recorder.name("r")
        what: dict[str, str | int] = {"topic": spec.source, "partition": partition, "record": record}
        recorder.tell(Action.SEND, Outcome.INVOKE, **what, transaction=name)
        future = producer.send(spec.source, record.encode(), partition=partition)
        future.add_done_callback(_delivered(recorder, what))
    action = Action.ABORT if chance.random() < 0.25 else Action.COMMIT
    recorder.tell(action, Outcome.INVOKE, transaction=name)
    try:
        _again(producer.abort_transaction if action is Action.ABORT else producer.commit_transaction)
    except ClientError as error:
        recorder.tell(action, Outcome.UNKNOWN, transaction=name, error=repr(error))
        if isinstance(error, FatalTransactionError):
            raise
        _again(producer.abort_transaction)
    else:
        recorder.tell(action, Outcome.OK, transaction=name)


def _delivered(recorder: Recorder, what: dict[str, str | int]) -> Callable[[DeliveryFuture], None]:
    def tell(future: DeliveryFuture) -> None:
        error = future.exception()
        if error is None:
            recorder.tell(Action.SEND, Outcome.OK, **what, offset=future.result().offset)
        else:
            recorder.tell(Action.SEND, Outcome.UNKNOWN, **what, error=repr(error))

    return tell


class _Sessions(RebalanceListener):
    """Begin a session at every assignment."""

    def __init__(self, spec: ClientSpec, recorder: Recorder) -> None:
        self._spec = spec
        self._recorder = recorder
        self.session = ""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.session = self._recorder.name("s")
        told = {"isolation": self._spec.isolation.value, "group": self._spec.group}
        self._recorder.tell(Action.ASSIGN, Outcome.OK, session=self.session, **told)


def group(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Run our consumer as a member of a group that commits its offsets now and then, and waits for the response."""
    chance = random.Random(spec.chance)
    sessions = _Sessions(spec, recorder)
    config = {
        "group.id": spec.group,
        "isolation.level": spec.isolation.value,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 100,
    }
    with Consumer({"bootstrap.servers": bootstrap, **config, **QUICK}) as consumer:
        consumer.subscribe([spec.source], listener=sessions)
        pending: dict[TopicPartition, int] = {}
        session = ""
        while not ending.asked:
            records = consumer.poll(POLL_S, chance.choice([1, 10, 50]))
            if sessions.session != session:
                pending, session = {}, sessions.session
            for record in records:
                place: dict[str, str | int] = {"topic": record.topic, "partition": record.partition}
                value = (record.value or b"").decode()
                recorder.tell(Action.READ, Outcome.OK, session=session, **place, offset=record.offset, record=value)
                pending[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if pending and chance.random() < 0.3:
                _commit(consumer, spec.group, pending, recorder)
                pending = {}


def _commit(consumer: Consumer, group: str, offsets: dict[TopicPartition, int], recorder: Recorder) -> None:
    def tell(outcome: Outcome, error: str = "") -> None:
        recorder.write(
            *(
                recorder.event(
                    Action.COMMIT_OFFSET,
                    outcome,
                    group=group,
                    topic=tp.topic,
                    partition=tp.partition,
                    offset=at,
                    error=error,
                )
                for tp, at in offsets.items()
            )
        )

    tell(Outcome.INVOKE)
    try:
        consumer.commit(offsets)
    except (ClientError, KafkaError) as error:
        tell(Outcome.UNKNOWN, repr(error))
    else:
        tell(Outcome.OK)

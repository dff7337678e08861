"""The clients that read: with assigned partitions, in a group, and one that copies in transactions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientError
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.types import TopicPartition as OwnPartition
from tests.history.events import FINAL, Action, Outcome
from tests.history.plan import ClientSpec
from tests.history.producing import ANSWER_S, TIMEOUT_MS, HangingError, Transactions, settings
from tests.history.recording import Ending, Recorder

SESSION_TIMEOUT_MS = 2_000
POLL_S = 0.05
OFFSETS_S = 4.0
"""The time-out of adding offsets to a transaction. If the broker dies during this call, librdkafka may keep the request
in its queue for minutes after the broker is back. A new producer avoids that."""


class ReaderFailedError(RuntimeError):
    """The broker answered that a reader's offset does not exist."""


class Reading:
    """A librdkafka consumer whose records are events of sessions."""

    def __init__(self, spec: ClientSpec, bootstrap: str, recorder: Recorder, **more: str | int | bool) -> None:
        self._spec = spec
        self._recorder = recorder
        self.session = ""
        self.at_end: set[tuple[str, int]] = set()
        self.sought: dict[tuple[str, int], int] = {}
        """The session's start offsets: librdkafka may return messages from before the seek."""
        config = settings(
            bootstrap,
            group_id=spec.group,
            isolation_level=spec.isolation.value,
            enable_auto_commit=False,
            enable_partition_eof=True,
            fetch_wait_max_ms=100,
            fetch_error_backoff_ms=20,
            **more,
        )
        self.consumer = Consumer(config)

    def begin(self, session: str = "", group: str = "") -> None:
        """Begin another session."""
        self.session = session or self._recorder.name("s")
        self.at_end.clear()
        self.sought.clear()
        self._recorder.tell(
            Action.ASSIGN, Outcome.OK, session=self.session, isolation=self._spec.isolation.value, group=group
        )

    def poll(self, count: int = 100) -> list[Any]:
        """Return up to `count` messages of the current session, each after its event is written.

        Raises:
            ReaderFailedError: An offset does not exist.
            KafkaException: The client failed for good.
        """
        messages: list[Any] = []
        session, wait = self.session, POLL_S
        while len(messages) < count:
            # One at a time, for a rebalance within the call ends the session that earlier messages belong to.
            message = self.consumer.poll(wait)
            if self.session != session:
                messages, session = [], self.session
            if message is None:
                break
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            error = message.error()
            if error is None and offset < self.sought.get((topic, partition), 0):
                continue
            if error is None:
                messages.append(message)
                self.at_end.discard((topic, partition))
                what: dict[str, str | int] = {"topic": topic, "partition": partition, "offset": offset}
                record = (message.value() or b"").decode()
                self._recorder.tell(Action.READ, Outcome.OK, session=session, record=record, **what)
                wait = 0.0
            elif error.code() == KafkaError._PARTITION_EOF:
                self.at_end.add((topic, partition))
            elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                raise ReaderFailedError(f"{topic}-{partition}: {error.str()}")
            elif error.fatal():
                raise KafkaException(error)
        return messages


def read(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Read all partitions repeatedly from random offsets; a final reader ends with one session of everything."""
    chance = random.Random(spec.chance)
    reading = Reading(spec, bootstrap, recorder, auto_offset_reset="error")
    places = [(topic, number) for topic in (spec.source, spec.copy) for number in range(spec.partitions)]
    ends = dict.fromkeys(places, 0)

    def assign(session: str = "", *, beginning: bool = False) -> None:
        reading.consumer.unassign()
        reading.begin(session)
        starts = {place: 0 if beginning else chance.randint(0, end) for place, end in ends.items()}
        reading.consumer.assign([TopicPartition(*place, start) for place, start in starts.items()])

    assign(beginning=True)
    left = chance.randint(200, 800)
    while not ending.asked:
        messages = reading.poll()
        for message in messages:
            place = (message.topic(), message.partition())
            ends[place] = max(ends[place], message.offset())
        left -= len(messages)
        if left < 0:
            left = chance.randint(200, 800)
            assign()
    if spec.final:
        assign(FINAL + spec.isolation, beginning=True)
        while len(reading.at_end) < len(places):
            reading.poll(1000)
    reading.consumer.close()


def read_own(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Read with our consumer of assigned partitions, from the beginning."""
    config = ClientConfig.from_dict(
        {
            "bootstrap.servers": bootstrap,
            "isolation.level": spec.isolation.value,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 10,
            "request.timeout.ms": TIMEOUT_MS,
        }
    )
    with SimpleConsumer(config) as consumer:
        session = recorder.name("s")
        recorder.tell(Action.ASSIGN, Outcome.OK, session=session, isolation=spec.isolation.value)
        consumer.assign(
            [OwnPartition(topic, number) for topic in (spec.source, spec.copy) for number in range(spec.partitions)]
        )
        while not ending.asked:
            try:
                records = consumer.poll(0.1)
            except ClientError:
                continue
            recorder.write(
                *(
                    recorder.event(
                        Action.READ,
                        Outcome.OK,
                        session=session,
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                        record=(record.value or b"").decode(),
                    )
                    for record in records
                )
            )


class Membership:
    """A subscription to the source topic. Every assignment begins a session, at the group's committed offsets.

    Members choose their start offsets themselves, 0 without a commit. With auto.offset.reset, librdkafka 2.16 asks for
    the beginning of the log. If the response arrives after a rebalance, it asks again half a second later, and begins
    again there, wherever it has read to by then (rd_kafka_toppar_handle_Offset of an outdated response; the same with
    late responses of Apache Kafka's broker).
    """

    def __init__(self, spec: ClientSpec, bootstrap: str, recorder: Recorder, **more: str | int | bool) -> None:
        self._spec = spec
        static = {"group_instance_id": spec.name.replace(" ", "-")} if spec.static else {}
        self.reading = Reading(
            spec,
            bootstrap,
            recorder,
            auto_offset_reset="error",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=100,
            **static,
            **more,
        )
        self.assigned: set[tuple[str, int]] = set()
        self.rebalances = 0
        self.reading.consumer.subscribe([spec.source], on_assign=self._assign, on_revoke=self._revoke)

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = {(each.topic, each.partition) for each in partitions}
        self.rebalances += 1
        consumer.assign(self.committed())
        self.reading.begin(group=self._spec.group)

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = set()
        self.rebalances += 1

    def committed(self) -> list[TopicPartition]:
        """Return the assigned partitions at the group's committed offsets, or at 0."""
        wanted = [TopicPartition(*place) for place in self.assigned]
        while True:
            try:
                found = self.reading.consumer.committed(wanted, timeout=ANSWER_S)
                if not any(each.error for each in found):
                    return [TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in found]
            except KafkaException:
                pass
            time.sleep(POLL_S)

    def at_end(self) -> bool:
        """Tell whether all partitions are assigned here and read. (An ended static member keeps its for a while.)"""
        return len(self.assigned) == self._spec.partitions and self.assigned <= self.reading.at_end


def group(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Run a member of a group that commits its offsets now and then, and waits for the response."""
    chance = random.Random(spec.chance)
    member = Membership(spec, bootstrap, recorder)
    pending: dict[tuple[str, int], int] = {}
    rebalances = 0
    while not ending.asked:
        messages = member.reading.poll(chance.choice([1, 10, 50]))
        if member.rebalances != rebalances:
            pending, rebalances = {}, member.rebalances
        for message in messages:
            pending[message.topic(), message.partition()] = message.offset() + 1
        if pending and chance.random() < 0.3:
            _commit(member.reading.consumer, spec.group, pending, recorder)
            pending = {}
    member.reading.consumer.close()


def _commit(consumer: Consumer, group: str, offsets: dict[tuple[str, int], int], recorder: Recorder) -> None:
    told: list[dict[str, str | int]] = [
        {"group": group, "topic": place[0], "partition": place[1], "offset": at} for place, at in offsets.items()
    ]

    def tell(outcome: Outcome, error: str = "") -> None:
        recorder.write(*(recorder.event(Action.COMMIT_OFFSET, outcome, **what, error=error) for what in told))

    tell(Outcome.INVOKE)
    try:
        done = consumer.commit(
            offsets=[TopicPartition(*place, at) for place, at in offsets.items()], asynchronous=False
        )
    except KafkaException as error:
        tell(Outcome.UNKNOWN, str(error))
        return
    failed = [str(each.error) for each in done or [] if each.error is not None]
    tell(Outcome.UNKNOWN if failed else Outcome.OK, ", ".join(failed))


def copy(spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending) -> None:
    """Copy committed records in transactions with the read offsets. A draining copier first reaches the end."""
    copier = Copier(spec, bootstrap, recorder, ending, random.Random(spec.chance))
    try:
        copier.run()
    finally:
        copier.close()


class Copier:
    """One consumer and one transactional producer, from reading to committing in lockstep."""

    def __init__(
        self, spec: ClientSpec, bootstrap: str, recorder: Recorder, ending: Ending, chance: random.Random
    ) -> None:
        self._spec = spec
        self._ending = ending
        self._chance = chance
        self._transactions = Transactions(spec, bootstrap, recorder)
        self._member = Membership(spec, bootstrap, recorder)

    def close(self) -> None:
        self._member.reading.consumer.close()

    def run(self) -> None:
        """Run until everything is copied, after the end was requested."""
        ending = False
        while True:
            if self._ending.asked and not self._spec.drains:
                return
            if self._ending.asked and not ending:
                # An end that was reached before may have moved.
                ending = True
                self._rewind()
            messages = self._member.reading.poll(1000 if ending else self._chance.choice([1, 5, 20, 50]))
            if messages:
                self._copy(messages)
            elif ending and self._member.at_end():
                return

    def _copy(self, messages: Iterable[Any]) -> None:
        consumer = self._member.reading.consumer
        rebalances = self._member.rebalances
        name = self._transactions.begin()
        offsets: dict[tuple[str, int], int] = {}
        try:
            for message in messages:
                source = message.value().decode()
                self._transactions.sending.send(self._spec.copy, message.partition(), name, source)
                offsets[message.topic(), message.partition()] = message.offset() + 1
            at = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            metadata = consumer.consumer_group_metadata()
            producer = self._transactions.sending.producer
            try:
                producer.send_offsets_to_transaction(at, metadata, OFFSETS_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    raise HangingError(str(error)) from error
                raise
        except (KafkaException, BufferError) as error:
            self._transactions.recover(name, error)
            done = False
        else:
            if self._chance.random() < 0.1:
                self._transactions.abort(name)
                done = False
            else:
                done = self._transactions.commit(name)
        if not done and rebalances == self._member.rebalances:
            self._rewind()

    def _rewind(self) -> None:
        """Go back to the group's committed offsets, in another session."""
        committed = self._member.committed()
        reading = self._member.reading
        reading.begin(group=self._spec.group)
        reading.sought.update({(each.topic, each.partition): each.offset for each in committed})
        reading.consumer.assign(committed)

"""Clients that work while brokers are replaced: a member of a group, and a transactional producer.

They send again what failed for a reason that may go by, as applications do, and count that. Every other error is kept.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.waiting import wait_until

T = TypeVar("T")
DEADLINE_S = 120.0
PAUSE_S = 0.05
RETRIED = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    # The coordinator has moved to an older release, which does not know the version of the request that waits to be
    # sent (librdkafka's rd_kafka_broker_request_supported). A second call makes an older request.
    KafkaError._UNSUPPORTED_FEATURE,
    # A coordinator of Apache Kafka that gives a partition up looks whether it has it, and then for the group, without a
    # lock between them. In between it says that there is no such generation (GroupCoordinator.handleCommitOffsets).
    KafkaError.ILLEGAL_GENERATION,
}
"""Errors after which a call is made again: the coordinator has moved, or its broker was stopped."""


class Worker(ABC):
    """A thread that works from the beginning of the block to its end.

    Attributes:
        done: how often it has committed; transactions that it has aborted count, too.
        retries: how often a call was made again, by the name of the error.
        failed: what went wrong.
    """

    def __init__(self) -> None:
        self.done = 0
        self.retries: Counter[str] = Counter()
        self.failed: list[str] = []
        self._end = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def wait_done(self, more: int = 3) -> None:
        """Wait until it has committed some more times; fail if one has failed."""
        before = self.done
        wait_until(
            lambda: self.done >= before + more or bool(self.failed), f"{type(self).__name__} goes on", DEADLINE_S
        )
        assert not self.failed, self.failed

    def _run(self) -> None:
        try:
            while not self._end.is_set() and not self.failed:
                self.done += self.step()
        except Exception as error:
            self.failed.append(repr(error))
        finally:
            self.close()

    @abstractmethod
    def step(self) -> int:
        """Work a little; return how many commits that were."""

    def close(self) -> None:  # noqa: B027 - not every client has an end
        """End the client; called on its thread."""

    def retried(self, call: Callable[[], T]) -> T:
        """Return the result of a call, which is repeated while it fails with an error that may go by."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return call()
            except KafkaException as error:
                reason = error.args[0]
                may_go_by = reason.retriable() or reason.code() in RETRIED
                if not may_go_by or time.monotonic() > deadline:
                    raise
                self.retries[reason.name()] += 1
                time.sleep(PAUSE_S)


class Member(Worker):
    """The only member of a group. It commits what it has read, and checks that it goes on from there.

    Attributes:
        committed: the offset of each partition that was committed at last.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__()
        self.committed: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": "500",
                "log_level": 0,
            }
        )
        self._topic = topic
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # It begins at the committed offset, whatever it had read beyond that.
        self._next = {each.partition: self.committed.get(each.partition, 0) for each in partitions}

    def step(self) -> int:
        for message in self._consumer.consume(500, PAUSE_S):
            self._take(message)
        moved = {index: end for index, end in self._next.items() if end > self.committed.get(index, 0)}
        if moved:
            offsets = [TopicPartition(self._topic, index, end) for index, end in moved.items()]
            for each in self.retried(lambda: self._consumer.commit(offsets=offsets, asynchronous=False)) or ():
                assert each.error is None, each
            self.committed |= moved
        return bool(moved)

    def _take(self, message: Message) -> None:
        error = message.error()
        index, offset = message.partition(), message.offset()
        if error is not None:
            self.failed.append(f"partition {index}: {error}")
        elif offset != self._next[index or 0]:
            self.failed.append(f"partition {index}: offset {offset} comes in place of {self._next[index or 0]}")
        else:
            self._next[index or 0] = offset + 1

    def close(self) -> None:
        self._consumer.close()


class Transactor(Worker):
    """Commits transactions with records of two partitions, and aborts every third one.

    Attributes:
        committed: the values of each partition, in their order.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.committed: dict[int, list[bytes]] = {0: [], 1: []}
        self._topic = topic
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "transactor",
                "transaction.timeout.ms": "60000",
                "retry.backoff.ms": "50",
                "retry.backoff.max.ms": "200",
                "reconnect.backoff.max.ms": "500",
                "log_level": 0,
            }
        )
        self.retried(lambda: self._producer.init_transactions(60))

    def step(self) -> int:
        self._number += 1
        is_kept = self._number % 3 != 0
        kind = "committed" if is_kept else "aborted"
        values = {index: [f"{kind} {self._number} {each}".encode() for each in range(3)] for index in self.committed}
        self._producer.begin_transaction()
        for index, wanted in values.items():
            for value in wanted:
                self._producer.produce(self._topic, value, partition=index, on_delivery=self._delivered)
        if is_kept:
            self.retried(lambda: self._producer.commit_transaction(60))
            for index, wanted in values.items():
                self.committed[index] += wanted
        else:
            left = self._producer.flush(60)
            assert not left, f"{left} records are neither acknowledged nor refused"
            self.retried(lambda: self._producer.abort_transaction(60))
        time.sleep(PAUSE_S)
        return 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(f"{message.value()!r}: {error}")

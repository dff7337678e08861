"""Test that Kafka Streams counts words exactly once while it and the broker are killed.

Its application repartitions through an internal topic, keeps its state in a compacted one, from which it is restored,
and commits input offsets, state and output in transactions (`exactly_once_v2`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import confluent_kafka as ck
import pytest

from peers import require
from peers.brokers.kafka import JVM_EXTRA, logging_options, streams_classpath, streams_missing
from peers.process import Process
from peers.toolchains import java
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import create_topic

PROGRAM = Path(__file__).with_name("Words.java")
PARTITIONS = 3
LINES = 1000
WORDS_IN_LINE = 10
DEADLINE_S = 240.0


class Application:
    """The application and what it was given to count."""

    def __init__(self, broker: KafkalogBroker, directory: Path) -> None:
        self.broker = broker
        self.wanted: Counter[str] = Counter()
        self._dice = random.Random(1)
        self._directory = directory
        with broker.connect() as sock:
            for topic in ("lines", "counts"):
                create_topic(sock, topic, PARTITIONS)
        self._producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        self.start()

    def start(self) -> None:
        args = [self.broker.bootstrap, str(self._directory / "state"), "lines", "counts"]
        options = ["-Xmx256M", *JVM_EXTRA, *logging_options("3", self._directory)]
        command = java.java_line(streams_classpath(), str(PROGRAM), args, options)
        self.process = Process(command, self._directory / "streams.log")

    def feed(self) -> None:
        """Lines to be counted, all of them acknowledged."""
        for _ in range(LINES):
            words = [f"word{self._dice.randrange(200)}" for _ in range(WORDS_IN_LINE)]
            self.wanted.update(words)
            self._producer.produce("lines", " ".join(words))
        assert self._producer.flush(DEADLINE_S) == 0

    def counted(self) -> dict[str, int]:
        """The newest committed count of each word; fails where a count did not grow."""
        config = {"bootstrap.servers": self.broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        consumer = ck.Consumer({**config, "enable.partition.eof": True, "enable.auto.commit": False})
        consumer.assign([ck.TopicPartition("counts", number, 0) for number in range(PARTITIONS)])
        counts: dict[str, int] = {}
        left = PARTITIONS
        while left:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "a partition has no end"
            error = message.error()
            if error is not None:
                left -= error.code() == ck.KafkaError._PARTITION_EOF
                continue
            word, count = (message.key() or b"").decode(), int(message.value() or b"0")
            assert count > counts.get(word, 0), f"{word} was {counts.get(word)} and is {count}: counted twice"
            counts[word] = count
        consumer.close()
        return counts

    def await_all(self) -> None:
        wait_until(lambda: self.counted() == self.wanted, "every word is counted once", DEADLINE_S)


@pytest.mark.peer
@pytest.mark.timeout(1800)
def test_words_are_counted_exactly_once(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    require(streams_missing())
    broker = start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"})
    application = Application(broker, tmp_path)
    try:
        application.feed()
        wait_until(lambda: bool(application.counted()), "the first counts", DEADLINE_S)
        application.feed()
        application.process.kill()
        application.start()
        application.feed()
        before = application.wanted.total() - 2 * LINES * WORDS_IN_LINE
        wait_until(lambda: sum(application.counted().values()) > before, "more counts", DEADLINE_S)
        broker.kill()
        broker.start()
        application.feed()
        application.await_all()
    finally:
        application.process.kill()

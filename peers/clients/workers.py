"""Clients that work while a test disturbs the brokers: a producer, and a consumer that reads what it writes.

They keep the defaults of their libraries, so that it is the library that sends again. Every error that reaches the
application is kept. The producer writes "PARTITION NUMBER" to the partitions in turn. The consumer is the only member
of a group with the topic's name, and commits after each poll what it has read.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import kafka as kafka_python

from peers.brokers import kafka
from peers.toolchains import golang, java

HERE = Path(__file__).parent
JAVA_SOURCE = HERE / "JavaWorker.java"
GO_SOURCE = HERE / "franz_worker.go"
PAUSE_S = 0.05
POLL_S = 0.1
END_S = 60.0


class Worker(ABC):
    """See the module; it works for the time of the block.

    Attributes:
        acknowledged: by partition, the values that were acknowledged, with the offsets that the producer was told.
        read: by partition, the values that the consumer has read, by offset.
        commits: how often it has committed.
        assigned: how many partitions the consumer got in each rebalance.
        failed: the errors that the application saw, but for `interrupted`.
        interrupted: errors of connections that the library left to the consumer's application. It polls, or commits,
            again.
        written: set when `end_writing` was called, and each record was acknowledged or has failed.
    """

    name: ClassVar[str]

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, range(partitions)
        self.acknowledged: dict[int, dict[bytes, int]] = {index: {} for index in self.partitions}
        self.read: dict[int, dict[int, bytes]] = {index: {} for index in self.partitions}
        self.commits = 0
        self.assigned: list[int] = []
        self.failed: list[str] = []
        self.interrupted: list[str] = []
        self.written = Event()

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """Return why the worker cannot run here, or None."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def acknowledgements(self) -> int:
        """The number of records that were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    @property
    def has_read_all(self) -> bool:
        """Return whether the consumer has read each record that was acknowledged."""
        return all(
            self.acknowledged[index].items() <= {value: at for at, value in self.read[index].items()}.items()
            for index in self.partitions
        )

    @abstractmethod
    def end_writing(self) -> None:
        """Let the producer send what it has, and end; `written` tells when."""

    @abstractmethod
    def end(self) -> None:
        """End both; the consumer leaves its group."""


class ProgramWorker(Worker, ABC):
    """A program. It prints a line for each event, ends to write at a line of input, and to read at the input's end."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(bootstrap, topic, partitions)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self._process = subprocess.Popen(
            [*self.command(), bootstrap, topic, str(partitions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._thread = Thread(target=self._listen)
        self._thread.start()

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return how the program is started, without its arguments."""

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.split():
                case ["acknowledged", partition, offset, *value]:
                    self.acknowledged[int(partition)][" ".join(value).encode()] = int(offset)
                case ["read", partition, offset, *value]:
                    self.read[int(partition)][int(offset)] = " ".join(value).encode()
                case ["committed"]:
                    self.commits += 1
                case ["assigned", count]:
                    self.assigned.append(int(count))
                case ["interrupted", *_]:
                    self.interrupted.append(line.strip())
                case ["written"]:
                    self.written.set()
                case _:
                    self.failed.append(line.strip())
        if self._process.wait() != 0:
            self._errors.seek(0)
            said = self._errors.read()[-4000:].decode(errors="replace")
            self.failed.append(f"it ended with {self._process.returncode}: {said}")

    def end_writing(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join(END_S)
        if self._process.poll() is None:
            self._process.kill()
            self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


class JavaWorker(ProgramWorker):
    """Java's producer and consumer of Apache Kafka 3.9."""

    name = "java-3"
    version = kafka.KAFKA_3

    def command(self) -> Sequence[str]:
        classes = java.compiled(kafka.kafka_classpath(self.version), JAVA_SOURCE)
        return kafka.tool_line(JAVA_SOURCE.stem, [], self.version, heap=("-Xmx128M",), classes=[classes])

    @classmethod
    def missing(cls) -> str | None:
        return kafka.missing(cls.version)


class FranzGoWorker(ProgramWorker):
    """franz-go's client."""

    name = "franz-go"

    def command(self) -> Sequence[str]:
        return [str(golang.build(GO_SOURCE))]

    @classmethod
    def missing(cls) -> str | None:
        return golang.missing(GO_SOURCE)


class Writing(NamedTuple):
    """A producer: sends a value to a partition; ends when everything is sent."""

    send: Callable[[int, bytes], object]
    close: Callable[[], object]


class Reading(NamedTuple):
    """A member of a group: polls for (partition, offset, value), commits what it has polled, leaves the group."""

    poll: Callable[[], Iterable[tuple[int, int, bytes]]]
    commit: Callable[[], object]
    close: Callable[[], object]


class LibraryWorker(Worker, ABC):
    """A Python library, with a thread for the producer and one for the consumer."""

    connection_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of connections that a consumer's application may see."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(bootstrap, topic, partitions)
        self._ends_writing, self._ends_reading = Event(), Event()
        self._threads = [Thread(target=self._run, args=(work,)) for work in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.failed.append(repr(error))

    def _write(self) -> None:
        producer = self.producer()
        number = 0
        try:
            while not self._ends_writing.is_set():
                index = number % len(self.partitions)
                producer.send(index, b"%d %d" % (index, number))
                number += 1
                time.sleep(PAUSE_S)
        finally:
            producer.close()
            self.written.set()

    def _read(self) -> None:
        consumer, uncommitted = self.consumer(), False
        try:
            while not self._ends_reading.is_set():
                try:
                    for index, offset, value in consumer.poll():
                        self.read[index][offset] = value
                        uncommitted = True
                    if uncommitted:
                        consumer.commit()
                        uncommitted = False
                        self.commits += 1
                except self.connection_errors as error:
                    self.interrupted.append(repr(error))
        finally:
            consumer.close()

    def delivered(self, index: int, value: bytes, offset: int) -> None:
        """Take what the producer tells of a record that was acknowledged."""
        self.acknowledged[index][value] = offset

    @abstractmethod
    def producer(self) -> Writing:
        """Return a new producer, which calls `delivered`, or adds to `failed`."""

    @abstractmethod
    def consumer(self) -> Reading:
        """Return a new member of the group, which adds to `assigned`."""

    def end_writing(self) -> None:
        self._ends_writing.set()

    def end(self) -> None:
        self._ends_writing.set()
        self._ends_reading.set()
        for thread in self._threads:
            thread.join()


class KafkaPythonWorker(LibraryWorker):
    """kafka-python, whose producer is idempotent from its release 2.1 on."""

    name = "kafka-python"
    # It asks for metadata when a coordinator is gone, and raises what hinders that.
    connection_errors = (kafka_python.errors.KafkaConnectionError,)

    @classmethod
    def missing(cls) -> str | None:
        return None

    def producer(self) -> Writing:
        producer = kafka_python.KafkaProducer(bootstrap_servers=self.bootstrap.split(","), acks="all")

        def send(index: int, value: bytes) -> None:
            future = producer.send(self.topic, value, partition=index)
            future.add_callback(lambda metadata: self.delivered(index, value, metadata.offset))
            future.add_errback(lambda error: self.failed.append(f"{value!r}: {error!r}"))

        return Writing(send, producer.close)

    def consumer(self) -> Reading:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.topic,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        worker = self

        class Listener(kafka_python.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Sequence[Any]) -> None:
                worker.assigned.append(len(assigned))

            def on_partitions_revoked(self, revoked: Sequence[Any]) -> None:
                pass

        consumer.subscribe([self.topic], listener=Listener())

        def poll() -> Iterable[tuple[int, int, bytes]]:
            for where, records in consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
                for record in records:
                    yield where.partition, record.offset, record.value

        return Reading(poll, consumer.commit, consumer.close)

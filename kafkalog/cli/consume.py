"""``kafkalog consume``: print the records of topics, as kafka-console-consumer.sh does, alone or as a group's member.

A member commits its positions, as Java's console consumer does, but never more than was printed: what a later run
prints again is at most what this one printed after its last commit.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Protocol

from kafkalog.cli.client_options import (
    UsageError,
    add_bootstrap,
    client_properties,
    complain,
    key_values,
    natural,
    reporting,
    warn_unknown,
)

if TYPE_CHECKING:
    from kafkalog.client.cluster import Cluster
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.consumer import Consumer, ConsumerConfig
    from kafkalog.client.simple import SimpleConsumer
    from kafkalog.client.types import ConsumerRecord, TopicPartition

EXAMPLES = """\
examples:
  kafkalog consume --bootstrap-server localhost:9092 --topic words --from-beginning
  kafkalog consume --bootstrap-server localhost:9092 --topic words --partition 0 --offset 100 --max-messages 10
  kafkalog consume --bootstrap-server localhost:9092 --topic words --from-beginning --timeout-ms 1000 \\
      --property print.key=true --property print.timestamp=true --property key.separator=:
  kafkalog consume --bootstrap-server localhost:9092 --include 'orders-.*' --group audit --from-beginning

With --group partitions are shared with the group's other members, and it goes on where the group has committed.

properties of the output (--property KEY=VALUE):
  print.timestamp=false  print.partition=false  print.offset=false  print.headers=false  print.key=false
  print.value=true       key.separator=TAB      line.separator=NEWLINE  headers.separator=,  null.literal=null

Without --from-beginning or --offset only what is written from now on is printed.
"""

FORMATTERS = ("org.apache.kafka.tools.consumer.DefaultMessageFormatter", "kafka.tools.DefaultMessageFormatter")
MAX_OFFSET = (1 << 63) - 1
POLL_S = 0.5
POLL_RECORDS = 10_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``consume``."""
    parser = subparsers.add_parser(
        "consume",
        help="print the records of topics",
        description="Print the records of topics to standard output.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_bootstrap(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", metavar="TOPIC", help="the topic to read")
    which.add_argument(
        "--include", "--whitelist", metavar="REGEX", help="read all topics whose names match, those of later too"
    )
    parser.add_argument("--group", metavar="GROUP", help="read as a member of this consumer group")
    parser.add_argument("--partition", type=natural, metavar="N", help="read this partition alone")
    parser.add_argument(
        "--offset", metavar="OFFSET", help="start there: a number, earliest or latest; needs --partition"
    )
    parser.add_argument("--from-beginning", action="store_true", help="start with the first record there is")
    parser.add_argument("--max-messages", type=natural, metavar="N", help="stop after so many records")
    parser.add_argument("--timeout-ms", type=natural, metavar="MS", help="stop when nothing comes for so long")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="how records are printed; see below"
    )
    parser.add_argument("--formatter-config", metavar="FILE", help="a file of properties of the output")
    parser.add_argument("--formatter", choices=FORMATTERS, metavar="CLASS", help="DefaultMessageFormatter, Kafka's")
    parser.add_argument(
        "--consumer-property", action="append", default=[], metavar="KEY=VALUE", help="a property of the consumer"
    )
    parser.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="a file of consumer properties"
    )
    parser.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        help="read_committed leaves out records of transactions that are aborted or not finished",
    )
    parser.add_argument(
        "--skip-message-on-error", action="store_true", help="go on after a record that cannot be printed"
    )
    parser.set_defaults(run=run_consume)


@reporting
def run_consume(arguments: argparse.Namespace) -> int:
    """Print records until told to stop, and how many they were to standard error."""
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.consumer import ConsumerConfig

    formatter = Formatter.from_properties(_formatter_properties(arguments))
    offset = _offset(arguments)
    properties = client_properties(
        arguments, arguments.consumer_config, key_values(arguments.consumer_property, "--consumer-property")
    )
    properties.setdefault("client.id", "console-consumer")
    for key in ("key.deserializer", "value.deserializer"):
        # Java's: what is printed here is bytes.
        properties.pop(key, None)
    if arguments.isolation_level is not None:
        properties["isolation.level"] = arguments.isolation_level
    if arguments.from_beginning:
        properties["auto.offset.reset"] = "earliest"
    grouped = _join_group(arguments, properties)
    config = ConsumerConfig.from_dict(properties) if grouped else None
    client = ClientConfig.from_dict(properties) if config is None else config.client
    _warn(properties, config, client)
    printed = Printed()
    with Interruption() as interruption:
        try:
            with _member(config, arguments) if config else _reader(client, arguments, offset) as source:
                _print_all(arguments, source, formatter, printed, interruption)
        except InterruptedCommand:
            pass
        finally:
            print(f"Processed a total of {printed.count} messages", file=sys.stderr)
    return interruption.exit_code


class InterruptedCommand(BaseException):
    """A signal asked for the end."""


class Interruption:
    """SIGINT and SIGTERM end the command, but not between printing records and counting them.

    The first signal then waits for that; the second does not.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self._held = False

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, number: int, frame: object) -> None:
        again = self.exit_code != 0
        self.exit_code = 128 + number
        if again or not self._held:
            raise InterruptedCommand

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the first signal back until the block ends."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.exit_code:
            raise InterruptedCommand


def _formatter_properties(arguments: argparse.Namespace) -> dict[str, str]:
    found: dict[str, str] = {}
    if arguments.formatter_config is not None:
        found = client_properties(arguments, arguments.formatter_config)
        del found["bootstrap.servers"]
    return {**found, **key_values(arguments.property, "--property")}


def _offset(arguments: argparse.Namespace) -> int | str | None:
    """Where --offset says to begin: an offset, ``earliest``, ``latest``, or None."""
    text: str | None = arguments.offset
    if text is None:
        return None
    if arguments.partition is None:
        raise UsageError("--offset needs --partition")
    if arguments.from_beginning:
        raise UsageError("--from-beginning and --offset cannot go together")
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if not text.isdecimal() or int(text) > MAX_OFFSET:
        raise UsageError(f"--offset {text}: expected earliest, latest or a number from 0 to {MAX_OFFSET}")
    return int(text)


def _warn(properties: dict[str, str], config: ConsumerConfig | None, client: ClientConfig) -> None:
    """Tell of properties that have no effect. ConfigError for wrong values, also of those that only members heed."""
    from kafkalog.client.consumer import ConsumerConfig

    if config is not None:
        warn_unknown(config.unknown)
        return
    unknown = set(ConsumerConfig.from_dict({"group.id": "none", **properties}).unknown)
    warn_unknown(unknown)
    for key in sorted(set(client.unknown) - unknown - {"group.id"}):
        complain(f"the property {key} has no effect without --group")


def _join_group(arguments: argparse.Namespace, properties: dict[str, str]) -> bool:
    """Whether to read as a member of a group; its properties are set then. UsageError for what excludes that."""
    given = properties.get("group.id")
    if arguments.group is not None and given not in (None, arguments.group):
        raise UsageError(f"--group {arguments.group}, but the consumer's properties say group.id={given}")
    group = arguments.group or given
    if arguments.partition is not None:
        if arguments.group is not None or arguments.include is not None:
            raise UsageError("--partition goes with neither --group nor --include: a group assigns the partitions")
        return False
    if group is None and arguments.include is None:
        return False
    if group is None:
        properties["enable.auto.commit"] = "false"
    properties["group.id"] = group or f"console-consumer-{random.randrange(100_000)}"
    return True


class Source(Protocol):
    """Where records come from."""

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        """At most so many records, waiting for the first up to ``timeout`` seconds."""

    def printed(self) -> None:
        """All that `poll` has returned, perhaps nothing, has been printed; called after every poll."""


class Member:
    """Reads as a member of a group, and commits its positions, where that is automatic.

    Also those of partitions that brought nothing: a group that began at their ends begins there again. A signal may end
    a poll when the consumer has counted records that nobody has got: so positions are taken down between polls.
    """

    def __init__(self, consumer: Consumer, interval: float | None) -> None:
        self._consumer = consumer
        self._interval = interval
        self._commit_at = time.monotonic() + (interval or 0.0)
        self._polled: list[ConsumerRecord] = []
        self._positions: dict[tuple[str, int], int] = {}

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        self._polled = []
        self._polled = self._consumer.poll(timeout, limit)
        return self._polled

    def printed(self) -> None:
        self._positions |= {(record.topic, record.partition): record.offset + 1 for record in self._polled}
        due = self._interval is not None and time.monotonic() >= self._commit_at
        assigned = self._consumer.assignment()
        self._take_down(assigned if due or not self._polled else assigned - self._positions.keys())
        if due and self._positions:
            self._commit_at = time.monotonic() + (self._interval or 0.0)
            self._consumer.commit_async(self._offsets())

    def _take_down(self, partitions: Iterable[TopicPartition]) -> None:
        """Note where the consumer is in these partitions, without those of which it is not known yet."""
        from kafkalog.client.errors import ClientTimeoutError

        for tp in partitions:
            with suppress(ClientTimeoutError):
                self._positions[tp] = self._consumer.position(tp, 0.0)

    def end(self) -> None:
        """Commit the positions."""
        offsets, self._positions = self._offsets(), {}
        if self._interval is not None and offsets:
            self._consumer.commit(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Others have these partitions from now on."""
        for tp in partitions:
            self._positions.pop(tp, None)

    def _offsets(self) -> dict[TopicPartition, int]:
        from kafkalog.client.types import TopicPartition

        return {TopicPartition(*tp): offset for tp, offset in self._positions.items()}


@contextmanager
def _member(config: ConsumerConfig, arguments: argparse.Namespace) -> Iterator[Source]:
    from kafkalog.client.consumer import Consumer, RebalanceListener, Whitelist
    from kafkalog.client.errors import ClientError
    from kafkalog.protocol.errors import KafkaError

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            try:
                member.end()
            except (ClientError, KafkaError) as error:
                complain(error)

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
            member.forget(partitions)

    interval = config.auto_commit_interval if config.enable_auto_commit else None
    # The consumer itself would commit what it has handed out, printed or not.
    with Consumer(replace(config, enable_auto_commit=False)) as consumer:
        member = Member(consumer, interval)
        if arguments.include is not None:
            consumer.subscribe(pattern=Whitelist(arguments.include), listener=Listener())
        else:
            consumer.subscribe([arguments.topic], listener=Listener())
        try:
            yield member
        except InterruptedCommand:
            # Between printing and counting nothing is interrupted.
            member.end()
            raise
        member.end()


class Reader:
    """Reads a topic's partitions, those that are added, too."""

    def __init__(self, cluster: Cluster, consumer: SimpleConsumer, arguments: argparse.Namespace) -> None:
        self._cluster, self._consumer, self._arguments = cluster, consumer, arguments
        self._max_age = cluster.config.metadata_max_age
        self._look_again = time.monotonic() + self._max_age

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        if time.monotonic() >= self._look_again and self._arguments.partition is None:
            self._consumer.assign(_partitions(self._cluster, self._arguments.topic))
            self._look_again = time.monotonic() + self._max_age
        return self._consumer.poll(timeout, limit)

    def printed(self) -> None:
        """There is no group to tell."""


@contextmanager
def _reader(config: ClientConfig, arguments: argparse.Namespace, offset: int | str | None) -> Iterator[Source]:
    from kafkalog.client.cluster import Cluster
    from kafkalog.client.simple import SimpleConsumer

    with Cluster(config) as cluster, SimpleConsumer(config, cluster=cluster) as consumer:
        _assign(arguments, cluster, consumer, offset)
        yield Reader(cluster, consumer, arguments)


def _assign(
    arguments: argparse.Namespace, cluster: Cluster, consumer: SimpleConsumer, offset: int | str | None
) -> None:
    from kafkalog.protocol.errors import UnknownTopicOrPartitionError

    partitions = _partitions(cluster, arguments.topic)
    if arguments.partition is not None:
        partitions = [tp for tp in partitions if tp.partition == arguments.partition]
        if not partitions:
            raise UnknownTopicOrPartitionError(f"topic {arguments.topic} has no partition {arguments.partition}")
    consumer.assign(partitions)
    for tp in partitions:
        if isinstance(offset, int):
            consumer.seek(tp, offset)
        elif offset == "earliest":
            consumer.seek_to_beginning(tp)
        elif offset == "latest":
            consumer.seek_to_end(tp)
        else:
            # The end of now, not of when the first record comes.
            consumer.position(tp)


def _partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    from kafkalog.client.types import TopicPartition

    return [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]


@dataclass
class Printed:
    """How many records have been printed."""

    count: int = 0


def _print_all(
    arguments: argparse.Namespace,
    source: Source,
    formatter: Formatter,
    printed: Printed,
    interruption: Interruption,
) -> None:
    # Buffered whatever PYTHONUNBUFFERED says: an unbuffered write may end before all is written.
    output = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115
    most: int | None = arguments.max_messages
    silence = None if arguments.timeout_ms is None else arguments.timeout_ms / 1000
    quiet_since = time.monotonic()
    while most is None or printed.count < most:
        wait = POLL_S if silence is None else min(POLL_S, quiet_since + silence - time.monotonic())
        if wait < 0:
            complain(f"no record came for {arguments.timeout_ms} ms (--timeout-ms)")
            return
        records = source.poll(wait, POLL_RECORDS if most is None else min(POLL_RECORDS, most - printed.count))
        with interruption.held():
            if records:
                formatter.write(records, output, skip_errors=arguments.skip_message_on_error)
                output.flush()
                printed.count += len(records)
                quiet_since = time.monotonic()
            source.printed()


@dataclass
class Formatter:
    """Records to text; properties as those of Kafka's DefaultMessageFormatter."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Formatter:
        """Raises UsageError for properties that are not known."""
        formatter = cls()
        for key, value in properties.items():
            name = key.replace(".", "_")
            if name not in cls.__dataclass_fields__:
                raise UsageError(f"--property {key}: not known; `kafkalog consume --help` lists the properties")
            is_flag = isinstance(getattr(formatter, name), bool)
            setattr(formatter, name, value.strip().lower() == "true" if is_flag else value.encode())
        return formatter

    def write(self, records: list[ConsumerRecord], output: BinaryIO, *, skip_errors: bool = False) -> None:
        """Write records; with ``skip_errors`` go on after one that cannot be written."""
        end = self.line_separator
        columns = self._columns()
        if not columns:
            return
        if columns == [self._value]:
            null = self.null_literal
            lines: Iterable[bytes] = [null if record.value is None else record.value for record in records]
            output.write(end.join((*lines, b"")))
            return
        separator = self.key_separator
        for record in records:
            try:
                line = separator.join([column(record) for column in columns])
            except ValueError as error:
                if not skip_errors:
                    raise
                complain(f"{record.topic}-{record.partition} offset {record.offset}: {error}")
                continue
            output.write(line + end)

    def _columns(self) -> list[Callable[[ConsumerRecord], bytes]]:
        columns = (
            (self.print_timestamp, self._timestamp),
            (self.print_partition, self._partition),
            (self.print_offset, self._offset),
            (self.print_headers, self._headers),
            (self.print_key, self._key),
            (self.print_value, self._value),
        )
        return [column for wanted, column in columns if wanted]

    def _nullable(self, data: bytes | None) -> bytes:
        return self.null_literal if data is None else data

    def _timestamp(self, record: ConsumerRecord) -> bytes:
        if record.timestamp < 0:
            return b"NO_TIMESTAMP"
        return b"%b:%d" % (b"LogAppendTime" if record.timestamp_type else b"CreateTime", record.timestamp)

    def _partition(self, record: ConsumerRecord) -> bytes:
        return b"Partition:%d" % record.partition

    def _offset(self, record: ConsumerRecord) -> bytes:
        return b"Offset:%d" % record.offset

    def _headers(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            b"%b:%b" % (name.encode(), self._nullable(value)) for name, value in record.headers
        )

    def _key(self, record: ConsumerRecord) -> bytes:
        return self._nullable(record.key)

    def _value(self, record: ConsumerRecord) -> bytes:
        return self._nullable(record.value)

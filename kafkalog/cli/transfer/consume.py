"""`kafkalog consume`: print the records of topics, as kafka-console-consumer.sh does, alone or as a group's member.

A member commits its positions, as Java's console consumer does, but only for printed records. A later run prints again
at most the records that this one printed after its last commit.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import (
    UsageError,
    add_bootstrap,
    add_repeated,
    client_properties,
    complain,
    file_properties,
    integer,
    key_values,
    reporting,
    warn_unknown,
)
from kafkalog.cli.shared.formatter import UnprintableError
from kafkalog.cli.shared.interruptible import InterruptedCommand, Interruption
from kafkalog.cli.transfer.formatters import FORMATTERS, MessageFormatter, make_formatter
from kafkalog.cli.transfer.sources import Source, member, reader

if TYPE_CHECKING:
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.consumer import ConsumerConfig

EXAMPLES = """\
examples:
  kafkalog consume --bootstrap-server localhost:9092 --topic words --from-beginning
  kafkalog consume --bootstrap-server localhost:9092 --topic words --partition 0 --offset 100 --max-messages 10
  kafkalog consume --bootstrap-server localhost:9092 --topic words --from-beginning --timeout-ms 1000 \\
      --property print.key=true --property print.timestamp=true --property key.separator=:
  kafkalog consume --bootstrap-server localhost:9092 --include 'orders-.*' --group audit --from-beginning
  kafkalog consume --zookeeper localhost:2181 --topic words --from-beginning
  kafkalog consume --bootstrap-server localhost:9092 --topic __consumer_offsets --from-beginning \\
      --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter

With --group the members of the group share the partitions, and reading begins at the offsets that the group committed.
With --zookeeper the group is one of Kafka 0.8, whose members and offsets are nodes in ZooKeeper.

properties of the output (--property KEY=VALUE):
  print.timestamp=false  print.partition=false  print.offset=false  print.headers=false  print.key=false
  print.value=true       key.separator=TAB      line.separator=NEWLINE  headers.separator=,  null.literal=null
  key.deserializer=      value.deserializer=    headers.deserializer=   without them bytes are printed as they are;
  String, Long, Integer, Short, Float, Double, Boolean, UUID, Void, Bytes, ByteBuffer, List or ByteArrayDeserializer
  of org.apache.kafka.common.serialization; their own properties follow the name, as in
  value.deserializer.deserializer.encoding=UTF-16  value.deserializer.default.list.value.serde.type=java.util.ArrayList
  value.deserializer.default.list.value.serde.inner=org.apache.kafka.common.serialization.Serdes$LongSerde

classes of --formatter, of org.apache.kafka.tools.consumer:
  DefaultMessageFormatter         the default, which the properties are for
  LoggingMessageFormatter         the same, and each record also to standard error
  NoOpMessageFormatter            nothing: records are only read and counted
  OffsetsMessageFormatter         committed offsets in __consumer_offsets, an object of JSON a line
  GroupMetadataMessageFormatter   groups in __consumer_offsets, an object of JSON a line
  TransactionLogMessageFormatter  transactions in __transaction_state, an object of JSON a line

Without --from-beginning or --offset only what is written from now on is printed.
"""

MAX_OFFSET = (1 << 63) - 1
LEAST_PATIENCE_MS = 10_000
"""The least time that `--timeout-ms` waits for a broker to answer."""
MAX_PATIENCE_MS = (1 << 31) - 1
POLL_S = 0.5
POLL_RECORDS = 10_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `consume`."""
    parser = subparsers.add_parser(
        "consume",
        help="print the records of topics",
        description="Print the records of topics to standard output.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_bootstrap(parser, zookeeper="read as a member of a group in this ZooKeeper, as consumers of Kafka 0.8 did")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", metavar="TOPIC", help="the topic to read")
    which.add_argument(
        "--include", "--whitelist", metavar="REGEX", help="read all topics whose names match, also those created later"
    )
    which.add_argument("--blacklist", metavar="REGEX", help="read all topics whose names do not match")
    parser.add_argument("--group", metavar="GROUP", help="read as a member of this consumer group")
    parser.add_argument("--partition", type=integer(0, 32), metavar="N", help="read only this partition")
    parser.add_argument(
        "--offset", metavar="OFFSET", help="start there: a number, earliest or latest; needs --partition"
    )
    parser.add_argument("--from-beginning", action="store_true", help="start with the first record")
    parser.add_argument(
        "--delete-consumer-offsets", action="store_true", help="with --zookeeper: delete the group's nodes first"
    )
    parser.add_argument("--max-messages", type=_limit, metavar="N", help="stop after N records; -1 for no limit")
    parser.add_argument(
        "--timeout-ms",
        type=_limit,
        metavar="MS",
        help="stop when no record comes for this long; a broker has at least 10 s to answer; -1 for no limit",
    )
    add_repeated(
        parser, "--property", "--formatter-property", metavar="KEY=VALUE", purpose="how records are printed, see below"
    )
    parser.add_argument("--formatter-config", metavar="FILE", help="a file of properties of the output")
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-deserializer", metavar="CLASS", help=f"short for --property {part}.deserializer=CLASS"
        )
    parser.add_argument(
        "--formatter", choices=FORMATTERS, default=FORMATTERS[0], metavar="CLASS", help="what writes records; see below"
    )
    add_repeated(
        parser, "--consumer-property", "--command-property", metavar="KEY=VALUE", purpose="a property of the consumer"
    )
    parser.add_argument(
        "--consumer.config",
        "--command-config",
        dest="consumer_config",
        metavar="FILE",
        help="a file of consumer properties",
    )
    parser.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        help="read_committed leaves out records of transactions that are aborted or not finished",
    )
    parser.add_argument("--skip-message-on-error", action="store_true", help="skip records that cannot be printed")
    parser.set_defaults(run=run_consume)


def _limit(text: str) -> int | None:
    """Parse a limit; -1 stands for none, as in Kafka's tool."""
    value = integer(-1)(text)
    return None if value < 0 else value


@reporting
def run_consume(arguments: argparse.Namespace) -> int:
    """Print records until a signal or a limit ends it, and print their number to standard error."""
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.consumer import Blacklist, ConsumerConfig, Whitelist

    formatter = make_formatter(arguments.formatter, _formatter_properties(arguments))
    if arguments.zookeeper is not None:
        return _print_from(lambda: _connector(arguments), arguments, formatter)
    if arguments.delete_consumer_offsets:
        raise UsageError("--delete-consumer-offsets needs --zookeeper; `kafkalog groups delete` deletes other groups")
    offset = _offset(arguments)
    properties = client_properties(
        arguments, arguments.consumer_config, key_values(arguments.consumer_property, "--consumer-property")
    )
    properties.setdefault("client.id", "console-consumer")
    if arguments.timeout_ms is not None:
        # It also bounds the wait for a broker. To reach one takes a while, however short a silence may be.
        properties.setdefault("default.api.timeout.ms", str(_patience_ms(arguments.timeout_ms)))
    for key in ("key.deserializer", "value.deserializer"):
        # Properties files for Java's consumer name deserializers; this command prints bytes.
        properties.pop(key, None)
    if arguments.isolation_level is not None:
        properties["isolation.level"] = arguments.isolation_level
    if arguments.from_beginning and properties.setdefault("auto.offset.reset", "earliest") != "earliest":
        given = properties["auto.offset.reset"]
        raise UsageError(f"--from-beginning and auto.offset.reset={given} contradict each other: leave one out")
    grouped = _join_group(arguments, properties)
    config = ConsumerConfig.from_dict(properties) if grouped else None
    client = ClientConfig.from_dict(properties) if config is None else config.client
    _warn(properties, config, client)
    if arguments.include is not None:
        Whitelist(arguments.include)
    if arguments.blacklist is not None:
        Blacklist(arguments.blacklist)
    return _print_from(
        lambda: member(config, arguments) if config else reader(client, arguments, offset), arguments, formatter
    )


def _patience_ms(silence_ms: int) -> int:
    """Return how long a broker may take to answer; the time has 32 bits."""
    return min(max(silence_ms, LEAST_PATIENCE_MS), MAX_PATIENCE_MS)


def _connector(arguments: argparse.Namespace) -> AbstractContextManager[Source]:
    from kafkalog.cli.transfer.connector_source import stream

    given = key_values(arguments.consumer_property, "--consumer-property")
    return stream(arguments, file_properties(arguments.consumer_config) | given)


def _print_from(
    open_source: Callable[[], AbstractContextManager[Source]],
    arguments: argparse.Namespace,
    formatter: MessageFormatter,
) -> int:
    printed = Printed()
    with Interruption() as interruption:
        try:
            with open_source() as source:
                _print_all(arguments, source, formatter, printed, interruption)
        except InterruptedCommand:
            pass
        finally:
            print(f"Processed a total of {printed.count} messages", file=sys.stderr)
    return interruption.exit_code


def _formatter_properties(arguments: argparse.Namespace) -> dict[str, str]:
    found = {**file_properties(arguments.formatter_config), **key_values(arguments.property, "--property")}
    for part in ("key", "value"):
        given = getattr(arguments, f"{part}_deserializer")
        if given is not None:
            found[f"{part}.deserializer"] = given
    return found


def _offset(arguments: argparse.Namespace) -> int | str | None:
    """Return the start that --offset names: an offset, `earliest`, `latest`, or None."""
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
    """Warn of properties without effect.

    Raises:
        ConfigError: A value is wrong, even that of a property that only members use.
    """
    from kafkalog.client.consumer import ConsumerConfig

    if config is not None:
        warn_unknown(config.unknown)
        return
    unknown = set(ConsumerConfig.from_dict({"group.id": "none", **properties}).unknown)
    warn_unknown(unknown)
    for key in sorted(set(client.unknown) - unknown - {"group.id"}):
        complain(f"the property {key} has no effect without --group")


def _join_group(arguments: argparse.Namespace, properties: dict[str, str]) -> bool:
    """Return whether to read as a member of a group, and set its properties.

    Raises:
        UsageError: The options contradict each other, or the name of the group is empty.
    """
    given = properties.get("group.id")
    if "" in (arguments.group, given):
        raise UsageError("--group: the name of a group must not be empty")
    if arguments.group is not None and given not in (None, arguments.group):
        raise UsageError(f"--group {arguments.group}, but the consumer's properties say group.id={given}")
    group = arguments.group or given
    has_filter = arguments.include is not None or arguments.blacklist is not None
    if arguments.partition is not None:
        if group is not None or has_filter:
            raise UsageError("--partition goes with neither --group nor --include: a group assigns the partitions")
        return False
    if group is None and not has_filter:
        return False
    if group is None:
        properties["enable.auto.commit"] = "false"
    properties["group.id"] = group or f"console-consumer-{random.randrange(100_000)}"
    return True


@dataclass
class Printed:
    """The number of records printed."""

    count: int = 0


def _print_all(
    arguments: argparse.Namespace,
    source: Source,
    formatter: MessageFormatter,
    printed: Printed,
    interruption: Interruption,
) -> None:
    # Always buffered, whatever PYTHONUNBUFFERED says: an unbuffered write may write only part of its data.
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
                try:
                    formatter.write(records, output, skip_errors=arguments.skip_message_on_error)
                except UnprintableError as error:
                    printed.count += error.done
                    raise UnprintableError(f"{error}; --skip-message-on-error leaves it out", error.done) from None
                finally:
                    output.flush()
                printed.count += len(records)
                quiet_since = time.monotonic()
            source.printed()

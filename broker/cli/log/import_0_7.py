"""`kafkalog log import-0.7`: produce what partition directories of Kafka 0.7 hold to topics of today."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.cli.shared.client_options import (
    UsageError,
    add_bootstrap,
    add_repeated,
    client_properties,
    key_values,
    reporting,
    warn_unknown,
)

if TYPE_CHECKING:
    from broker.log.kafka_0_7 import OldLog
    from kafkalog.client.producer import DeliveryFuture, Producer

EXAMPLES = """\
examples:
  kafkalog log import-0.7 /tmp/kafka-logs --bootstrap-server localhost:9092
  kafkalog log import-0.7 /tmp/kafka-logs/my_topic-0 --bootstrap-server localhost:9092 --topic words --from-offset 4096

PATH is a partition's directory, my_topic-0 or my_topic_0, or the directory of them. Messages are written in their order
to the partition with the same number, which has to exist. They get no key, and the time of the import. Offsets of 0.7
count bytes: the last line for each partition shows the range of bytes and the offsets of its messages now. Bytes after
the last whole message are left out, as in Kafka 0.7. The files are not changed. A second run writes everything again;
--from-offset continues a run that was interrupted.
"""
FLUSH_EVERY = 10_000
"""Messages under way at most."""


class StoppedError(Exception):
    """Messages that could not be read or written; how far it came is in the message."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `import-0.7`."""
    parser = commands.add_parser(
        "import-0.7",
        help="write the messages of Kafka 0.7's directories to topics",
        description="Write the messages of Kafka 0.7's partition directories to topics.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="a partition's directory, or the directory of them")
    add_bootstrap(parser)
    parser.add_argument("--topic", metavar="TOPIC", help="the topic to write to (default: from the directory's name)")
    parser.add_argument(
        "--partition", type=int, metavar="N", help="the partition to write to (default: from the directory's name)"
    )
    parser.add_argument(
        "--from-offset",
        type=int,
        metavar="BYTES",
        help="begin at this offset of 0.7; PATH has to be one partition's directory",
    )
    add_repeated(parser, "--producer-property", metavar="KEY=VALUE", purpose="a property of the producer")
    parser.set_defaults(run=run_import)


@reporting
def run_import(arguments: argparse.Namespace) -> int:
    """Import every partition; 1 where one could not be imported whole."""
    from broker.log.kafka_0_7 import partition_directories, partition_of
    from kafkalog.client.producer import Producer, ProducerConfig

    directories = partition_directories(arguments.path)
    if not directories:
        raise UsageError(f"{arguments.path} holds no .kafka files, nor do directories in it named topic-N or topic_N")
    if len(directories) > 1 and (arguments.partition is not None or arguments.from_offset is not None):
        raise UsageError("--partition and --from-offset are for one partition's directory")
    properties = client_properties(arguments, None, key_values(arguments.producer_property, "--producer-property"))
    config = ProducerConfig.from_dict(properties)
    warn_unknown(config.unknown)
    failed = False
    with Producer(config) as producer:
        for directory in directories:
            topic, partition = partition_of(directory) or (None, None)
            topic = arguments.topic or topic
            partition = partition if arguments.partition is None else arguments.partition
            if topic is None or partition is None:
                raise UsageError(f"{directory} is not named topic-N or topic_N: set --topic and --partition")
            try:
                print(_import(producer, directory, topic, partition, arguments.from_offset))
            except StoppedError as error:
                print(f"kafkalog: {directory}: {error}", file=sys.stderr)
                failed = True
    return int(failed)


def _import(producer: Producer, directory: Path, topic: str, partition: int, start: int | None) -> str:
    from broker.log.kafka_0_7 import OldLog

    try:
        log = OldLog.open(directory)
    except (OSError, ValueError) as error:
        raise StoppedError(error) from error
    begin = log.start if start is None else start
    progress = _Progress(begin)
    try:
        _send(producer, log, topic, partition, progress)
    except Exception as error:
        again = f", which writes {progress.behind} messages behind it again" if progress.behind else ""
        raise StoppedError(
            f"stopped behind offset {progress.done} (byte) with {progress.count} messages written: {error}; "
            f"go on with --from-offset {progress.done}{again}"
        ) from error
    where = f"{topic}-{partition}"
    if not progress.count:
        return f"{directory}: no messages in bytes [{begin}, {log.end}), so none for {where}"
    return (
        f"{directory}: {progress.count} messages of bytes [{begin}, {log.end}) are offsets "
        f"[{progress.first}, {progress.last + 1}) of {where}"
    )


class _UnderWay(NamedTuple):
    """Hold a message that was sent, and the offset after the stored message that holds it."""

    future: DeliveryFuture
    next_offset: int


class _Progress:
    """Hold how far an import has come.

    Attributes:
        done: the byte behind the last stored message of which everything before it was written, too.
        count: the messages up to there.
        behind: the messages behind it that were written as well; an import that goes on writes them again.
        first: the offset of the first message in the topic.
        last: the offset of the last one up to `done`.
    """

    def __init__(self, begin: int) -> None:
        self.done = begin
        self.count = self.behind = 0
        self.first = self.last = -1


def _send(producer: Producer, log: OldLog, topic: str, partition: int, progress: _Progress) -> None:
    from broker.log.kafka_0_7 import BrokenLogError

    under_way: list[_UnderWay] = []
    behind = progress.done
    try:
        for message in log.messages(progress.done):
            # Only behind a whole message of the log can an import go on.
            if len(under_way) >= FLUSH_EVERY and message.offset >= behind:
                _wait(producer, under_way, progress)
            behind = message.next_offset
            future = producer.send(topic, message.payload, partition=partition)
            under_way.append(_UnderWay(future, behind))
            if future.done() and future.exception() is not None:
                # The producer has not taken it. What comes behind it would be written twice.
                break
    except BrokenLogError:
        # What was read before is written all the same, and must be counted.
        _wait(producer, under_way, progress)
        raise
    _wait(producer, under_way, progress)


def _wait(producer: Producer, under_way: list[_UnderWay], progress: _Progress) -> None:
    """Wait for the messages under way, and note those before the first one that could not be written.

    Raises:
        Exception: the reason why that one could not be written.
    """
    producer.flush()
    sent = under_way[:]
    under_way.clear()
    errors = [each.future.exception() for each in sent]
    failed = next((at for at, error in enumerate(errors) if error is not None), len(sent))
    whole = failed
    while 0 < whole < len(sent) and sent[whole - 1].next_offset == sent[whole].next_offset:
        # The message that failed is one of several in a compressed one, which is written again as a whole.
        whole -= 1
    for each in sent[:whole]:
        offset = each.future.result().offset
        progress.first = offset if progress.first < 0 else progress.first
        progress.last, progress.done = offset, each.next_offset
    progress.count += whole
    progress.behind += errors[whole:].count(None)
    for error in filter(None, errors):
        raise error

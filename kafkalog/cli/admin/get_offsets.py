"""`kafkalog get-offsets`: print offsets of partitions by time, as kafka-get-offsets.sh does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import (
    UsageError,
    add_action,
    admin_config,
    complain,
    complain_of,
    reporting,
)
from kafkalog.cli.shared.ids import parse_ids
from kafkalog.java_numbers import parse_integer

if TYPE_CHECKING:
    from kafkalog.client.types import TopicPartition

EXAMPLES = """\
examples:
  kafkalog get-offsets --bootstrap-server localhost:9092 --topic words
  kafkalog get-offsets --bootstrap-server localhost:9092 --topic 'words|clicks.*' --partitions 0,1 --time earliest
  kafkalog get-offsets --bootstrap-server localhost:9092 --topic-partitions words:0,clicks:2-5 --time 1767225600000

A line is TOPIC:PARTITION:OFFSET. Partitions without a record that late have none.

exit codes: 0 done, 1 no partition matches, or the offset of some partition is not known, 2 wrong usage
"""
TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
"""The timestamps of ListOffsets that have names."""
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]{0,10})|([0-9]{0,10})-([0-9]{0,10})))?")
_NO_OFFSET = -1

Wanted = Callable[[str], Callable[[int], bool] | None]
"""Returns for a topic which of its partitions are wanted; None if none are."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `get-offsets`."""
    parser = add_action(subparsers, "get-offsets", "print offsets of partitions by time", EXAMPLES)
    parser.add_argument("--topic", metavar="REGEX", help="only topics whose names match")
    parser.add_argument("--partitions", metavar="N,…", help="only these partitions of them")
    parser.add_argument(
        "--topic-partitions",
        metavar="REGEX[:N],…",
        help="in place of both: topics with a partition, or a range: 2-5 ends before 5, and 2- and -5 are open",
    )
    parser.add_argument(
        "--time",
        type=_time,
        default=TIMES["latest"],
        metavar="TIME",
        help="the offset of the first record that is not older than these ms since 1970; or one of "
        f"{', '.join(f'{name} ({number})' for name, number in TIMES.items())} (default: latest)",
    )
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave internal topics out")
    parser.set_defaults(run=run)


def _time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    time = parse_integer(text)
    if time is not None and min(TIMES.values()) <= time < 1 << 63:
        return time
    raise argparse.ArgumentTypeError(f"{text!r} is no time: expected ms since 1970, or one of {', '.join(TIMES)}")


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Print the offset of each partition; return 1 if one is not known."""
    from kafkalog.client.admin import Admin
    from kafkalog.client.types import TopicPartition

    wanted = _wanted(arguments)
    with Admin(admin_config(arguments)) as admin:
        topics: dict[str, Callable[[int], bool]] = {}
        for name in admin.list_topics(internal=not arguments.exclude_internal_topics):
            if (partitions := wanted(name)) is not None:
                topics[name] = partitions
        described = admin.describe_topics_each(topics) if topics else {}
        errors = [each for each in described.values() if isinstance(each, Exception)]
        asked = [
            TopicPartition(name, number)
            for name, topic in described.items()
            if not isinstance(topic, Exception)
            for number in topic.partitions
            if topics[name](number)
        ]
        for error in errors:
            complain_of(error)
        if not asked and not errors:
            complain("Could not match any topic-partitions with the specified filters")
            return 1
        found = admin.list_offsets_each(dict.fromkeys(asked, arguments.time))
    failed = bool(errors)
    for tp in sorted(asked, key=_shown):
        offset = found[tp]
        if isinstance(offset, Exception):
            complain(
                f"Skip getting offsets for topic-partition {tp} due to error: {getattr(offset, 'message', offset)}"
            )
            failed = True
        elif offset.offset != _NO_OFFSET:
            print(f"{tp.topic}:{tp.partition}:{offset.offset}")
    return int(failed)


def _shown(tp: TopicPartition) -> str:
    """Return what Kafka's tool sorts by: partition 10 is before partition 2."""
    return f"{tp.topic}-{tp.partition}"


def _wanted(arguments: argparse.Namespace) -> Wanted:
    """Return what the options select.

    Raises:
        UsageError: They contradict each other, or one cannot be read.
        ConfigError: An expression cannot be read.
    """
    if arguments.topic_partitions is None:
        return parse_topics(arguments.topic, arguments.partitions)
    if arguments.topic is not None or arguments.partitions is not None:
        raise UsageError("--topic-partitions cannot be used with --topic or --partitions")
    return parse_rules(arguments.topic_partitions)


def parse_topics(expression: str | None, partitions: str | None) -> Wanted:
    """Return what `--topic` and `--partitions` select; see `_wanted` for errors."""
    from kafkalog.client.consumer import Whitelist

    words = partitions.split(",") if partitions else []
    numbers = frozenset(parse_ids(words, f"--partitions {partitions}: expected partitions, as in 0,1"))
    topics = Whitelist(".*" if expression is None else expression)

    def is_wanted(number: int) -> bool:
        return not numbers or number in numbers

    return lambda topic: is_wanted if topics.allows(topic) else None


def parse_rules(text: str) -> Wanted:
    """Return what `--topic-partitions` selects; see `_wanted` for errors."""
    from kafkalog.client.consumer import Whitelist

    rules = []
    for word in text.rstrip(",").split(","):
        matched = _RULE.fullmatch(word)
        if matched is None:
            raise UsageError(f"--topic-partitions {word}: expected a topic, and after a colon 2, 2-5, 2- or -5")
        expression, number, low, high = matched.groups()
        if number:
            numbers = range(int(number), int(number) + 1)
        else:
            numbers = range(int(low or 0), int(high) if high else 1 << 31)
        rules.append((Whitelist(expression or ".*"), numbers))

    def wanted(topic: str) -> Callable[[int], bool] | None:
        ranges = [numbers for topics, numbers in rules if topics.allows(topic)]
        return (lambda partition: any(partition in numbers for numbers in ranges)) if ranges else None

    return wanted

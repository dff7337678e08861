"""`kafkalog isr why`: tell why the leader, the in-sync replicas or the assignment of a partition changed.

Kafka has no such tool. Its brokers log that an ISR has changed, and the operator finds the reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import UsageError, add_action, admin_config, print_json, reporting

if TYPE_CHECKING:
    from kafkalog.client.admin.replicas.explanations import ExplainedPartition, FollowerPosition
    from kafkalog.client.types import TopicPartition

EXAMPLES = """\
examples:
  kafkalog isr why words-0 --bootstrap-server localhost:9092
  kafkalog isr why words-0 --bootstrap-server localhost:9092 --json

The addresses may be those of any brokers: the command finds the controller and the leader. Each broker keeps the
newest 10,000 changes that controllers have told it, so that a new controller knows those of earlier ones.

exit codes: 0 done, 1 there is no such partition or no answer, 2 wrong usage
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `isr` and its commands."""
    commands = add_command(subparsers, "isr", "tell why leaders and in-sync replicas changed", EXAMPLES)
    why = add_action(commands, "why", "tell why a partition changed, and how far its followers are", EXAMPLES)
    why.add_argument("partition", metavar="TOPIC-PARTITION", help="the partition, such as words-0")
    why.add_argument("--json", action="store_true", help="one object in place of lines")
    why.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Print the present state, and then the changes with their reasons, the newest last."""
    from kafkalog.client.admin import Admin

    partition = _parse(arguments.partition)
    with Admin(admin_config(arguments)) as admin:
        found = admin.replicas.explain(partition)
    if arguments.json:
        print_json(_row(found))
        return 0
    for line in (*_now(found), *_history(found)):
        print(line)
    return 0


def _parse(text: str) -> TopicPartition:
    from kafkalog.client.types import TopicPartition

    topic, dash, number = text.rpartition("-")
    if not topic or not dash or not number.isascii() or not number.isdecimal():
        raise UsageError(f"{text!r} is no partition: expected TOPIC-PARTITION, such as words-0")
    return TopicPartition(topic, int(number))


def _now(found: ExplainedPartition) -> Iterator[str]:
    leader = "no leader" if found.leader < 0 else f"leader {found.leader} (epoch {found.leader_epoch})"
    yield f"{found.partition}: {leader}, replicas {_ids(found.replicas)}, in sync {_ids(found.isr)}"
    if found.silence is not None:
        yield f"  the positions of the followers are not known: {found.silence}"
    for each in found.followers:
        yield f"  broker {each.broker}: {'in sync' if each.broker in found.isr else 'not in sync'}, {_position(each)}"


def _position(follower: FollowerPosition) -> str:
    # A new leader counts the members of the ISR as up to date before it has heard of them.
    if follower.log_end_offset < 0 or follower.fetched_ms < 0:
        return "has not fetched in this leader epoch"
    fetched = f"fetched {_ago(follower.fetched_ms)}"
    if not follower.lag:
        return f"lacks nothing, {fetched}"
    had_all = (
        "has never had all in this leader epoch" if follower.behind_ms < 0 else f"had all {_ago(follower.behind_ms)}"
    )
    return f"lacks {follower.lag} records (its log ends at {follower.log_end_offset}), {had_all}, {fetched}"


def _history(found: ExplainedPartition) -> Iterator[str]:
    if found.controller_epoch < 0:
        yield "This broker is a cluster of its own: neither leaders nor in-sync replicas ever change."
        return
    since = _time(found.controller_since_ms)
    yield f"Broker {found.controller} is the controller since {since} (controller epoch {found.controller_epoch})."
    epochs = [each.controller_epoch for each in found.changes]
    before = [each for each in found.changes if each.at_ms < found.known_since_ms]
    if found.known_since_ms >= 0 and not before:
        yield f"Changes before {_time(found.known_since_ms)} are lost."
    for number, change in enumerate(found.changes):
        yield f"{_time(change.at_ms)}  {change.what}"
        yield f"  because {change.cause}"
        if number + 1 == len(before):
            until = _time(found.known_since_ms)
            yield f"Until {until} other brokers were the controller: what they told nobody is missing."
    if not epochs:
        yield "It has decided no change of this partition."


def _row(found: ExplainedPartition) -> dict[str, object]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "leader": found.leader,
        "leader_epoch": found.leader_epoch,
        "replicas": list(found.replicas),
        "isr": list(found.isr),
        "log_end_offset": found.log_end_offset,
        "followers": [each._asdict() for each in found.followers],
        "followers_unknown_because": found.silence,
        "controller": found.controller,
        "controller_epoch": found.controller_epoch,
        "controller_since_ms": found.controller_since_ms,
        "known_since_ms": found.known_since_ms,
        "changes": [each._asdict() for each in found.changes],
    }


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _ago(millis: int) -> str:
    return f"{millis / 1000:.1f} s ago"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")

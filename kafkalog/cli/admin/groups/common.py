"""Parts of the commands on groups: selecting groups and partitions, and printing tables."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog.cli.shared.client_options import (
    UsageError,
    add_repeated,
    admin_config,
    aligned,
    complain,
    print_json,
    zookeeper_security,
)
from kafkalog.cli.shared.ids import parse_ids

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.descriptions import GroupListing
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.types import TopicPartition
    from kafkalog.client.zookeeper.session import ZooKeeperSession

IN_ZOOKEEPER = "groups of Kafka 0.8, whose members and offsets are in this ZooKeeper"
"""The help of `--zookeeper`."""
MISSING = "-"
"""Shown in a column without a value."""


def add_groups(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add `--group` and `--all-groups`; one of them must be given unless `required` is false."""
    which = parser.add_mutually_exclusive_group(required=required)
    add_repeated(which, "--group", metavar="GROUP", purpose="a consumer group")
    which.add_argument("--all-groups", action="store_true", help="all consumer groups")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="one object a line, in place of the table")


def open_admin(arguments: argparse.Namespace) -> GroupAdmin:
    """Return the admin client that the options describe.

    Raises:
        UsageError: The configuration file cannot be read.
        ConfigError: A property cannot have its value.
    """
    from kafkalog.client.admin.groups.group_admin import GroupAdmin

    return GroupAdmin(admin_config(arguments))


class Listed(NamedTuple):
    """The groups of the brokers that answer, sorted by name, and the errors of the other brokers."""

    groups: list[GroupListing]
    errors: dict[int, Exception]

    def complain(self) -> None:
        """Print which groups are not known."""
        for node, error in self.errors.items():
            complain(f"groups whose coordinator is broker {node} are not listed: {getattr(error, 'message', error)}")


def list_each(admin: GroupAdmin, states: Iterable[str] = (), types: Iterable[str] = ()) -> Listed:
    """List the groups of all brokers. One that does not answer does not hide those of the others.

    Raises:
        Exception: No broker lists its groups. This is the error of the first one.
    """
    of_brokers = admin.list_groups_each(states=states, types=types)
    errors = {node: each for node, each in of_brokers.items() if isinstance(each, Exception)}
    if len(errors) == len(of_brokers):
        raise next(iter(errors.values()))
    found = {each.group: each for some in of_brokers.values() if not isinstance(some, Exception) for each in some}
    return Listed([found[name] for name in sorted(found)], errors)


class Selected(NamedTuple):
    """The names of the groups that the options select."""

    names: list[str]
    is_whole: bool = True
    """False if a broker has not told which groups it coordinates."""


def selected(admin: GroupAdmin, arguments: argparse.Namespace) -> Selected:
    """Return the groups that `--group` or `--all-groups` names; complain of brokers that do not list theirs."""
    from kafkalog.client.admin.groups.descriptions import is_of_consumers

    if arguments.group:
        return Selected(list(dict.fromkeys(arguments.group)))
    listed = list_each(admin)
    listed.complain()
    return Selected([each.group for each in listed.groups if is_of_consumers(each.protocol_type)], not listed.errors)


def open_zookeeper(arguments: argparse.Namespace) -> ZooKeeperSession:
    """Open a session with the ZooKeeper that `--zookeeper` names.

    Raises:
        UsageError, ConfigError: The file of `--zk-tls-config-file` cannot be read or used.
        ConnectionLossError: ZooKeeper does not answer.
        AccessDeniedError: It refuses the login.
    """
    from kafkalog.client.zookeeper.brokers import CONNECT_S
    from kafkalog.client.zookeeper.session import ZooKeeperSession

    security = zookeeper_security(arguments)
    return ZooKeeperSession(arguments.zookeeper, connect_timeout=CONNECT_S, security=security)


def selected_in_zookeeper(session: ZooKeeperSession, arguments: argparse.Namespace) -> list[str]:
    """Return the groups that `--group` names; with `--all-groups` those that have nodes in ZooKeeper."""
    from kafkalog.client.zookeeper.groups import list_groups

    return list(dict.fromkeys(arguments.group)) if arguments.group else session.run(list_groups())


def partitions_of(admin: GroupAdmin, words: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of TOPIC or TOPIC:0,1,2 words, sorted.

    Raises:
        UsageError: A word names no topic, or its partitions are no numbers.
        UnknownTopicOrPartitionError: There is no topic of that name.
    """
    from kafkalog.client.types import TopicPartition

    found: set[TopicPartition] = set()
    for topic, numbers in map(parse_topic, words):
        found.update(TopicPartition(topic, each) for each in numbers or admin.cluster.partitions(topic))
    return sorted(found)


class LogEnds(NamedTuple):
    """The high watermarks of partitions."""

    offsets: dict[TopicPartition, int]
    """Partitions that have no leader or do not exist are left out."""
    is_whole: bool
    """False if a leader has not told where its partitions end."""


def log_ends(admin: GroupAdmin, partitions: Collection[TopicPartition]) -> LogEnds:
    """Return the high watermarks of partitions; complain of those whose leaders do not tell them."""
    from kafkalog.client.offsets import LATEST, list_offsets_each

    topics = admin.cluster.metadata({tp.topic for tp in partitions}, refresh=True).topics
    led = {
        tp: LATEST
        for tp in partitions
        if (known := topics[tp.topic].partitions.get(tp.partition)) is not None and known.leader >= 0
    }
    answers = list_offsets_each(admin.cluster, led)
    unknown = {tp: each for tp, each in answers.items() if isinstance(each, Exception)}
    for reason in dict.fromkeys(getattr(each, "message", str(each)) for each in unknown.values()):
        complain(f"the ends of some logs are not known: {reason}")
    return LogEnds({tp: each.offset for tp, each in answers.items() if not isinstance(each, Exception)}, not unknown)


def parse_topic(word: str) -> tuple[str, list[int]]:
    """Parse `topic[:partitions]`, such as `words:0,2`; no partitions mean all.

    Raises:
        UsageError: The word names no topic, or its partitions are no numbers.
    """
    topic, colon, numbers = word.partition(":")
    if not colon:
        return topic, []
    complaint = f"--topic {word}: expected a topic, or a topic and partitions as in words:0,1"
    if not topic:
        raise UsageError(complaint)
    return topic, parse_ids(numbers.split(","), complaint)


class Column(NamedTuple):
    """A column: its heading, its least width in Kafka's tool, and its key in JSON."""

    heading: str
    width: int
    key: str


OF_PARTITION = (Column("GROUP", 15, "group"), Column("TOPIC", 15, "topic"), Column("PARTITION", 10, "partition"))
"""The first columns of a table with a row for each partition of a group."""
OF_POSITION = (
    Column("CURRENT-OFFSET", 15, "current_offset"),
    Column("LOG-END-OFFSET", 15, "log_end_offset"),
    Column("LAG", 15, "lag"),
)
"""The columns that tell how far a group is in a partition."""


def show(columns: Sequence[Column], rows: Collection[Sequence[Any]], *, as_json: bool) -> None:
    """Print rows as a table with an empty line after it, or as JSON; None means no value."""
    if as_json:
        for row in rows:
            print_json(dict(zip((column.key for column in columns), row, strict=True)))
    elif rows:
        for line in table(columns, rows):
            print(line)
        print()


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Return the lines of a table; each column is as wide as its longest value, and the last one is not padded."""
    texts = [[column.heading for column in columns], *([_text(value) for value in row] for row in rows)]
    return aligned(texts, [column.width for column in columns], " ")


def _text(value: Any) -> str:
    """Return a value in a table; an assignment as Kafka writes it: `words:0,1;pages:2`."""
    if isinstance(value, Mapping):
        return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in value.items()) or MISSING
    return MISSING if value is None or value == "" else str(value)

"""`kafkalog topics`: create, list, describe, alter and delete topics, as kafka-topics.sh does."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    FIND_BROKERS,
    UsageError,
    add_action,
    add_repeated,
    admin_config,
    complain,
    complain_of,
    examples_of,
    integer,
    key_values,
    reporting,
)
from kafkalog.cli.shared.ids import parse_ids

if TYPE_CHECKING:
    from kafkalog.client.admin import Admin, ConfigEntry
    from kafkalog.client.admin.replicas.replica_admin import Reassignment
    from kafkalog.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata

    _Moves: TypeAlias = Mapping[int, Reassignment]
    _Filter: TypeAlias = Callable[[PartitionMetadata], bool]

MIN_ISR = "min.insync.replicas"

EXAMPLES = """\
examples:
  kafkalog topics create --bootstrap-server localhost:9092 --topic words --partitions 4
  kafkalog topics create --bootstrap-server localhost:9092 --topic latest --config cleanup.policy=compact
  kafkalog topics list --bootstrap-server localhost:9092
  kafkalog topics describe --bootstrap-server localhost:9092 --topic words
  kafkalog topics alter --bootstrap-server localhost:9092 --topic words --partitions 8
  kafkalog topics alter --bootstrap-server localhost:9092 --topic words --config retention.ms=86400000
  kafkalog topics delete --bootstrap-server localhost:9092 --topic words --if-exists
  kafkalog topics --create --zookeeper localhost:2181 --replication-factor 1 --partitions 1 --topic words

Where topics are listed, described, altered or deleted, TOPIC is a regular expression that must match a whole name;
commas separate several. Actions may also be written as options, as in Kafka: --create, --list, --describe, --alter and
--delete.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `topics` and its commands."""
    commands = add_command(subparsers, "topics", "create, list, describe, alter and delete topics", EXAMPLES)
    _add_create(commands)
    _add_list(commands)
    _add_describe(commands)
    _add_alter(commands)
    _add_delete(commands)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, *, topic: bool
) -> argparse.ArgumentParser:
    parser = add_action(commands, name, purpose, examples_of(EXAMPLES, f"topics {name}"), zookeeper=FIND_BROKERS)
    parser.add_argument("--topic", required=topic, metavar="TOPIC", help="the topic's name")
    return parser


def _add_create(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "create", "create a topic", topic=True)
    parser.add_argument("--partitions", type=integer(1, 32), metavar="N", help="partitions (default: the cluster's)")
    parser.add_argument(
        "--replication-factor",
        type=integer(1, 16),
        metavar="N",
        help="replicas of each partition (default: the cluster's)",
    )
    parser.add_argument(
        "--replica-assignment",
        metavar="ID:ID,ID:ID,…",
        help="the brokers of each partition's replicas, in place of the two numbers",
    )
    add_repeated(parser, "--config", metavar="KEY=VALUE", purpose="a setting of the topic")
    parser.add_argument("--if-not-exists", action="store_true", help="do nothing if the topic exists")
    parser.set_defaults(run=run_create)


def _add_list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "list", "list the names of topics", topic=False)
    parser.add_argument("--exclude-internal", action="store_true", help="leave out the cluster's own topics")
    parser.set_defaults(run=run_list)


def _add_describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "describe", "describe topics and their partitions", topic=False)
    parser.add_argument("--topic-id", metavar="ID", help="the topic's id, in place of its name")
    parser.add_argument("--exclude-internal", action="store_true", help="leave out the cluster's own topics")
    parser.add_argument("--if-exists", action="store_true", help="do nothing if the topic does not exist")
    only = parser.add_argument_group("show only")
    only.add_argument("--under-replicated-partitions", action="store_true", help="partitions with replicas out of sync")
    only.add_argument("--unavailable-partitions", action="store_true", help="partitions without a live leader")
    only.add_argument(
        "--under-min-isr-partitions", action="store_true", help=f"partitions with fewer in sync than {MIN_ISR}"
    )
    only.add_argument("--at-min-isr-partitions", action="store_true", help=f"partitions with {MIN_ISR} in sync")
    only.add_argument(
        "--topics-with-overrides", action="store_true", help="topics with settings of their own, without partitions"
    )
    parser.set_defaults(run=run_describe)


def _add_alter(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "alter", "add partitions to topics, or change their settings", topic=True)
    parser.add_argument(
        "--partitions",
        type=integer(1, 32),
        metavar="N",
        help="the new number of partitions; keys may move to other partitions",
    )
    parser.add_argument(
        "--replica-assignment", metavar="ID:ID,ID:ID,…", help="the brokers of all partitions, existing ones included"
    )
    add_repeated(parser, "--config", metavar="KEY=VALUE", purpose="set a setting")
    # Kafka 0.8's documentation has the second name.
    reset = "reset a setting to the default"
    add_repeated(parser, "--delete-config", "--deleteConfig", metavar="KEY", purpose=reset)
    parser.add_argument("--if-exists", action="store_true", help="do nothing if the topic does not exist")
    parser.set_defaults(run=run_alter)


def _add_delete(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "delete", "delete topics with all of their records", topic=True)
    parser.add_argument("--if-exists", action="store_true", help="do nothing if the topic does not exist")
    parser.set_defaults(run=run_delete)


def _admin(arguments: argparse.Namespace) -> Admin:
    from kafkalog.client.admin import Admin

    return Admin(admin_config(arguments))


@reporting
def run_create(arguments: argparse.Namespace) -> int:
    """Create a topic."""
    from kafkalog.client.admin import NewTopic
    from kafkalog.protocol.errors import TopicAlreadyExistsError

    assignments = _assignments(arguments.replica_assignment)
    if assignments and (arguments.partitions or arguments.replication_factor):
        raise UsageError("--replica-assignment takes the place of --partitions and --replication-factor")
    topic = NewTopic(
        arguments.topic,
        arguments.partitions or -1,
        arguments.replication_factor or -1,
        key_values(arguments.config, "--config"),
        assignments or None,
    )
    with _admin(arguments) as admin:
        try:
            admin.create_topics([topic])
        except TopicAlreadyExistsError:
            if arguments.if_not_exists:
                return 0
            raise
    print(f"Created topic {topic.name}.")
    return 0


@reporting
def run_list(arguments: argparse.Namespace) -> int:
    """Print the names of topics, one a line, sorted."""
    with _admin(arguments) as admin:
        names = _matching(admin, arguments.topic, internal=not arguments.exclude_internal)
    for name in names:
        print(name)
    return 0


@reporting
def run_alter(arguments: argparse.Namespace) -> int:
    """Add partitions and change configurations."""
    from kafkalog.client.admin import ConfigChange, ConfigOperation, ConfigResource

    assignments = _assignments(arguments.replica_assignment)
    changes = [ConfigChange(key, value) for key, value in key_values(arguments.config, "--config").items()]
    changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in arguments.delete_config]
    if not arguments.partitions and not changes:
        raise UsageError("nothing to alter: give --partitions, --config or --delete-config")
    if assignments and len(assignments) != arguments.partitions:
        raise UsageError(f"--replica-assignment has {len(assignments)} partitions; --partitions must say the same")
    with _admin(arguments) as admin:
        names = _existing(admin, arguments)
        if changes:
            admin.incremental_alter_configs({ConfigResource.topic(name): changes for name in names})
        if arguments.partitions:
            new = None
            if assignments:
                counts = {name: len(topic.partitions) for name, topic in admin.describe_topics(names).items()}
                new = {name: list(assignments.values())[counts[name] :] for name in names}
            admin.create_partitions(dict.fromkeys(names, arguments.partitions), assignments=new)
    return 0


@reporting
def run_delete(arguments: argparse.Namespace) -> int:
    """Delete topics."""
    with _admin(arguments) as admin:
        admin.delete_topics(_existing(admin, arguments))
    return 0


def _assignments(text: str | None) -> dict[int, list[int]]:
    """Return the brokers of each partition's replicas."""
    found: dict[int, list[int]] = {}
    for number, replicas in enumerate(filter(None, (text or "").split(","))):
        brokers = parse_ids(replicas.split(":"), f"--replica-assignment {text}: expected broker ids, as in 0:1,1:2")
        if len(set(brokers)) < len(brokers):
            raise UsageError(f"--replica-assignment {text}: partition {number} names a broker twice")
        found[number] = brokers
        if len(brokers) != len(found[0]):
            raise UsageError(f"--replica-assignment {text}: partition {number} has another number of replicas")
    return found


def _matching(admin: Admin, expression: str | None, *, internal: bool = True) -> list[str]:
    """Return the names that the regular expression matches; all without one."""
    names = admin.list_topics(internal=internal)
    if expression is None:
        return names
    try:
        wanted = re.compile(expression.strip().strip("\"'").replace(",", "|").replace(" ", ""))
    except re.error as error:
        raise UsageError(f"--topic {expression}: {error}") from error
    return [name for name in names if wanted.fullmatch(name)]


def _existing(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    """Return the topics that --topic names.

    Raises:
        UnknownTopicOrPartitionError: There is none, and --if-exists is not given.
    """
    from kafkalog.protocol.errors import UnknownTopicOrPartitionError

    names = _matching(admin, arguments.topic, internal=not getattr(arguments, "exclude_internal", False))
    if not names and arguments.topic and not arguments.if_exists:
        raise UnknownTopicOrPartitionError(f"Topic '{arguments.topic}' does not exist as expected")
    return names


# describe


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print a line about each topic and one about each of its partitions; return 1 if one cannot be described."""
    from kafkalog.client.admin import ConfigResource
    from kafkalog.client.errors import ClientTimeoutError

    with _admin(arguments) as admin:
        topics, errors = _described(admin, arguments)
        found = admin.describe_configs_each(ConfigResource.topic(topic.name) for topic in topics)
        cluster = admin.describe_cluster()
        try:
            going = _reassignments(admin, cluster, topics)
        except ClientTimeoutError as silence:
            # Who looks at the topics may do so because the controller hangs.
            errors.append(ClientTimeoutError(f"{silence}; the reassignments in progress are not known"))
            going = {}
    alive = set(cluster.brokers)
    for topic in topics:
        moves = going.get(topic.name, {})
        configs: Mapping[str, ConfigEntry] | None = None
        outcome = found[ConfigResource.topic(topic.name)]
        if isinstance(outcome, Exception):
            errors.append(outcome)
        else:
            configs = outcome
        for line in _lines(topic, configs, alive, moves, arguments):
            print(line)
    for error in errors:
        complain_of(error)
    return int(bool(errors))


def _reassignments(admin: Admin, cluster: ClusterMetadata, topics: Iterable[TopicMetadata]) -> Mapping[str, _Moves]:
    """Return the reassignments of these topics' partitions; none where brokers do not know them, or may not tell."""
    from kafkalog.client.types import TopicPartition
    from kafkalog.protocol.errors import ClusterAuthorizationFailedError, UnsupportedVersionError

    partitions = [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]
    if not partitions or cluster.controller_id < 0:
        # Topics can be described without a controller. Kafka 0.8 never names one.
        return {}
    found: dict[str, dict[int, Reassignment]] = defaultdict(dict)
    try:
        for tp, reassignment in admin.replicas.list_partition_reassignments(partitions).items():
            found[tp.topic][tp.partition] = reassignment
    except (ClusterAuthorizationFailedError, UnsupportedVersionError):
        # Kafka's tool does without them, too.
        return {}
    return found


def _described(admin: Admin, arguments: argparse.Namespace) -> tuple[list[TopicMetadata], list[Exception]]:
    """Return the topics that the options name, and the errors of those that cannot be described."""
    from kafkalog.protocol.errors import UnknownTopicIdError

    if arguments.topic_id is None:
        names = _existing(admin, arguments)
        found = [each for _, each in sorted(admin.describe_topics_each(names).items())] if names else []
        errors: list[Exception] = [each for each in found if isinstance(each, Exception)]
        return [each for each in found if not isinstance(each, Exception)], errors
    if arguments.topic is not None:
        complain("--topic is ignored where there is --topic-id")
    described = [each for each in admin.describe_topics_each().values() if not isinstance(each, Exception)]
    named = [each for each in described if _id(each) == arguments.topic_id]
    if not named and not arguments.if_exists:
        raise UnknownTopicIdError(f"TopicId '{arguments.topic_id}' does not exist as expected")
    return named, []


def _id(topic: TopicMetadata) -> str:
    """Return the topic's id as Kafka writes it: base64 for URLs, without padding."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()


def _lines(
    topic: TopicMetadata,
    configs: Mapping[str, ConfigEntry] | None,
    alive: set[int],
    moves: _Moves,
    arguments: argparse.Namespace,
) -> Iterator[str]:
    """Yield the lines about a topic; `configs` is None where its configurations cannot be read."""
    partitions = [topic.partitions[number] for number in sorted(topic.partitions)]
    filters = _filters(arguments, configs, alive, moves)
    overrides = [entry for entry in configs.values() if not entry.is_default] if configs else []
    shown = "N/A" if configs is None else ",".join(f"{entry.name}={entry.value}" for entry in overrides)
    if not filters and (overrides or not arguments.topics_with_overrides):
        factor = _factor(partitions[0], moves.get(partitions[0].partition)) if partitions else 0
        yield "\t".join(
            (
                f"Topic: {topic.name}",
                *((f"TopicId: {_id(topic)}",) if topic.topic_id.int else ()),
                f"PartitionCount: {len(partitions)}",
                f"ReplicationFactor: {factor}",
                f"Configs: {shown}",
            )
        )
    if arguments.topics_with_overrides:
        return
    for partition in partitions:
        if not filters or any(wanted(partition) for wanted in filters):
            yield "\t" + "\t".join(
                (
                    f"Topic: {topic.name}",
                    f"Partition: {partition.partition}",
                    f"Leader: {'none' if partition.leader < 0 else partition.leader}",
                    f"Replicas: {_ids(partition.replicas)}",
                    f"Isr: {_ids(partition.isr)}",
                    *_moved(moves.get(partition.partition)),
                    "Elr: N/A",
                    "LastKnownElr: N/A",
                )
            )


def _moved(move: Reassignment | None) -> tuple[str, ...]:
    if move is None:
        return ()
    return f"Adding Replicas: {_ids(move.adding)}", f"Removing Replicas: {_ids(move.removing)}"


def _factor(partition: PartitionMetadata, move: Reassignment | None) -> int:
    """Return how many replicas the partition has apart from those that it is being given."""
    if move is None or not {*move.adding, *move.removing} & {*partition.replicas}:
        # The reassignment has ended since it was listed, or there is none.
        return len(partition.replicas)
    return len(move.replicas) - len(move.adding)


def _filters(
    arguments: argparse.Namespace, configs: Mapping[str, ConfigEntry] | None, alive: set[int], moves: _Moves
) -> Sequence[_Filter]:
    """Return the conditions of the options; without `configs`, no number of replicas in sync is too small."""
    least = 1
    if configs is None:
        least = -1
    elif MIN_ISR in configs:
        least = int(configs[MIN_ISR].value or 1)
    known: dict[str, _Filter] = {
        "under_replicated_partitions": lambda partition: (
            len(partition.isr) < _factor(partition, moves.get(partition.partition))
        ),
        "unavailable_partitions": lambda partition: partition.leader not in alive,
        "under_min_isr_partitions": lambda partition: partition.leader < 0 or len(partition.isr) < least,
        "at_min_isr_partitions": lambda partition: len(partition.isr) == least,
    }
    return [wanted for name, wanted in known.items() if getattr(arguments, name)]


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))

"""`kafkalog elect`: elect leaders of partitions, as kafka-leader-election.sh does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import UsageError, add_action, admin_config, complain, integer, reporting

if TYPE_CHECKING:
    from kafkalog.client.types import TopicPartition

EXAMPLES = """\
the file:
  {"partitions": [{"topic": "words", "partition": 0}]}

An unclean election makes any live replica the leader, even if it lacks records that were acknowledged.

examples:
  kafkalog elect --bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions
  kafkalog elect --bootstrap-server localhost:9092 --election-type preferred --topic words --partition 0
  kafkalog elect --bootstrap-server localhost:9092 --election-type unclean --path-to-json-file partitions.json

exit codes: 0 done or not needed, 1 failed for some partition, 2 wrong usage
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `elect`."""
    parser = add_action(subparsers, "elect", "elect leaders of partitions", EXAMPLES)
    parser.add_argument(
        "--admin.config",
        dest="command_config",
        metavar="FILE",
        help="the same as --command-config; Kafka's tool has it",
    )
    parser.add_argument(
        "--election-type", required=True, choices=("preferred", "unclean"), type=str.lower, help="who is elected"
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all-topic-partitions", action="store_true", help="elect for all partitions of the cluster")
    which.add_argument("--path-to-json-file", metavar="FILE", help="a JSON file that names the partitions")
    which.add_argument("--topic", metavar="TOPIC", help="the topic of --partition")
    parser.add_argument("--partition", type=integer(0, 32), metavar="N", help="the partition of --topic")
    parser.set_defaults(run=run)


@reporting
def run(arguments: argparse.Namespace) -> int:
    """Elect leaders, and print what was done for which partitions."""
    from kafkalog.client.admin import Admin
    from kafkalog.client.admin.replicas.replica_admin import ElectionType
    from kafkalog.protocol.errors import ElectionNotNeededError

    kind = ElectionType[arguments.election_type.upper()]
    partitions = _partitions(arguments)
    with Admin(admin_config(arguments)) as admin:
        outcomes = admin.replicas.elect_leaders(partitions, kind)
    elected = [tp for tp, error in sorted(outcomes.items()) if error is None]
    as_before = [tp for tp, error in sorted(outcomes.items()) if isinstance(error, ElectionNotNeededError)]
    if elected:
        print(f"Successfully completed leader election ({kind.name}) for partitions {', '.join(map(str, elected))}")
    if as_before:
        print(f"Valid replica already elected for partitions {', '.join(map(str, as_before))}")
    failed = {tp: error for tp, error in outcomes.items() if error is not None and tp not in as_before}
    for tp, error in sorted(failed.items()):
        complain(f"Error completing leader election ({kind.name}) for partition: {tp}: {error.message}")
    return 1 if failed else 0


def _partitions(arguments: argparse.Namespace) -> list[TopicPartition] | None:
    """Return the partitions that the options name; None for all.

    Raises:
        UsageError: The options do not fit, or the file names no partitions.
    """
    from kafkalog.cli.admin.partition_files import parse_partitions, read_file
    from kafkalog.client.types import TopicPartition

    if (arguments.topic is None) != (arguments.partition is None):
        raise UsageError("--topic and --partition go together")
    if arguments.topic is not None:
        return [TopicPartition(arguments.topic, arguments.partition)]
    if arguments.path_to_json_file is None:
        return None
    option, file = "--path-to-json-file", arguments.path_to_json_file
    found = parse_partitions(read_file(file, option), f"{option} {file}")
    if not found:
        raise UsageError(f"{option} {file}: the file names no partitions")
    return found

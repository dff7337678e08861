"""`kafkalog log-dirs`: describe the log directories of brokers, as kafka-log-dirs.sh does."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    add_action,
    admin_config,
    complain,
    print_json,
    reporting,
)
from kafkalog.cli.shared.ids import parse_ids

if TYPE_CHECKING:
    from kafkalog.client.admin.replicas.replica_admin import LogDirInfo
    from kafkalog.protocol.errors import KafkaError

EXAMPLES = """\
examples:
  kafkalog log-dirs describe --bootstrap-server localhost:9092
  kafkalog log-dirs describe --bootstrap-server localhost:9092 --broker-list 0,1 --topic-list words,clicks | tail -1

The last line is the JSON of Kafka's tool. `size` is in bytes. `offsetLag` is how far a replica is behind the high
watermark or, where `isFuture` is true, how far the copy of a move is behind the replica that it will replace.
"""
VERSION = 1
_JAVA_ERRORS = "org.apache.kafka.common.errors."


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `log-dirs` and its action."""
    commands = add_command(subparsers, "log-dirs", "describe the log directories of brokers", EXAMPLES)
    describe = add_action(commands, "describe", "describe log directories and the replicas in them", EXAMPLES)
    describe.add_argument("--broker-list", default="", metavar="ID,…", help="only these brokers (default: all)")
    describe.add_argument("--topic-list", default="", metavar="TOPIC,…", help="only these topics (default: all)")
    describe.set_defaults(run=run_describe)


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print the log directories of the brokers; return 1 if a broker does not exist, or does not answer.

    A broker that does not answer does not hide the directories of the others, as it does in Kafka's tool.
    """
    from kafkalog.client.admin import Admin
    from kafkalog.client.outcomes import some_of

    wanted = _brokers(arguments.broker_list)
    topics = frozenset(filter(None, arguments.topic_list.split(",")))
    with Admin(admin_config(arguments)) as admin:
        there = admin.describe_cluster().brokers
        missing = [each for each in wanted if each not in there]
        if missing:
            complain(
                f"The given brokers do not exist from --broker-list: {_comma(missing)}. "
                f"Current existent brokers: {_comma(sorted(there))}"
            )
            return 1
        print("Querying brokers for log directories information", flush=True)
        found, errors = some_of(admin.replicas.describe_log_dirs_each(wanted or None))
    print(f"Received log directory information from brokers {_comma(found)}")
    print_json({"version": VERSION, "brokers": [_broker(each, found[each], topics) for each in found]})
    for node, error in errors.items():
        complain(f"the log directories of broker {node} are not known: {getattr(error, 'message', error)}")
    return int(bool(errors))


def _brokers(text: str) -> list[int]:
    """Return the sorted ids of `--broker-list`.

    Raises:
        UsageError: They are no ids.
    """
    words = list(filter(None, text.split(",")))
    return sorted(set(parse_ids(words, f"--broker-list {text}: expected broker ids, as in 0,1")))


def _comma(ids: Collection[int]) -> str:
    return ",".join(map(str, ids))


def _broker(node_id: int, directories: Mapping[str, LogDirInfo], topics: Collection[str]) -> dict[str, Any]:
    return {
        "broker": node_id,
        "logDirs": [
            {
                "logDir": path,
                "error": None if info.error is None else _java_name(info.error),
                "partitions": [
                    {
                        "partition": str(tp),
                        "size": replica.size,
                        "offsetLag": replica.offset_lag,
                        "isFuture": replica.is_future,
                    }
                    for tp, replica in sorted(info.replicas.items())
                    if not topics or tp.topic in topics
                ],
            }
            for path, info in sorted(directories.items())
        ],
    }


def _java_name(error: KafkaError) -> str:
    """Return the name of Java's class for an error of a log directory: KafkaStorageException for KafkaStorageError."""
    return f"{_JAVA_ERRORS}{type(error).__name__.removesuffix('Error')}Exception"

"""`kafkalog groups delete-offsets`: delete committed offsets of a group."""

from __future__ import annotations

import argparse

from kafkalog.cli.admin.groups.common import Column, add_json, open_admin, partitions_of, show
from kafkalog.cli.shared.client_options import add_action, add_repeated, reporting

EXAMPLES = """\
examples:
  kafkalog groups delete-offsets --bootstrap-server localhost:9092 --group words --topic words
  kafkalog groups delete-offsets --bootstrap-server localhost:9092 --group words --topic words:0,1 --topic pages

A group may have members, but none that subscribes to the topic. Exit code 1: an offset was not deleted.
"""
COLUMNS = (Column("TOPIC", 30, "topic"), Column("PARTITION", 15, "partition"), Column("STATUS", 15, "status"))


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `delete-offsets`."""
    parser = add_action(commands, "delete-offsets", "delete committed offsets of a consumer group", EXAMPLES)
    parser.add_argument("--group", required=True, metavar="GROUP", help="the consumer group")
    add_repeated(parser, "--topic", required=True, metavar="TOPIC[:N,…]", purpose="a topic, or partitions of it")
    add_json(parser)
    parser.set_defaults(run=run_delete_offsets)


@reporting
def run_delete_offsets(arguments: argparse.Namespace) -> int:
    """Delete the offsets, and print the result for each partition."""
    with open_admin(arguments) as admin:
        outcomes = admin.delete_offsets(arguments.group, partitions_of(admin, arguments.topic))
    rows = [
        (*tp, "Successful" if error is None else f"Error: {error.code.message}")
        for tp, error in sorted(outcomes.items())
    ]
    if not (arguments.json or any(outcomes.values())):
        topics = ", ".join(arguments.topic)
        print(f"Request succeed for deleting offsets with topic {topics} group {arguments.group}")
    show(COLUMNS, rows, as_json=arguments.json)
    return 1 if any(outcomes.values()) else 0

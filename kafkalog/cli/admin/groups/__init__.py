"""`kafkalog groups`: list, describe and alter consumer groups, as kafka-consumer-groups.sh does.

There is a module for each command. It parses, calls `kafkalog.client.admin` and prints.

- `listing`         `list`
- `describe`        `describe`
- `reset_offsets`   `reset-offsets`
- `delete`          `delete`
- `delete_offsets`  `delete-offsets`
- `remove_members`  `remove-members`
- `zookeeper`       `list`, `describe` and `delete` of groups in ZooKeeper
- `stores`          offsets and members for `reset-offsets`, from brokers or from ZooKeeper
- `plan_files`      the CSV files of reset-offsets: which offset each partition gets
- `times`           points in time and durations (ISO 8601)
- `common`          what these commands share: choosing groups and partitions, printing tables
"""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import add_command

COMMANDS = ("listing", "describe", "reset_offsets", "delete", "delete_offsets", "remove_members")

EXAMPLES = """\
examples:
  kafkalog groups list --bootstrap-server localhost:9092
  kafkalog groups describe --bootstrap-server localhost:9092 --group words
  kafkalog groups reset-offsets --bootstrap-server localhost:9092 --group words --topic words --to-earliest --dry-run

`kafkalog groups ACTION --help` shows an action's options.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `groups` and its commands."""
    modules = [f"kafkalog.cli.admin.groups.{name}" for name in COMMANDS]
    add_command(
        subparsers,
        "groups",
        "list, describe and delete consumer groups, reset their offsets",
        EXAMPLES,
        modules=modules,
    )

"""`kafkalog offsets`: the offsets of groups in ZooKeeper, moved to Kafka and back, and written to files.

The commands are for groups at rest: a member that runs would commit over what they have written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafkalog.cli.admin.groups.common import (
    OF_PARTITION,
    Column,
    Selected,
    add_groups,
    add_json,
    open_zookeeper,
    selected,
    selected_in_zookeeper,
    show,
)
from kafkalog.cli.shared.actions import action_parser, add_command
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_zookeeper_security,
    brokers_in_zookeeper,
    complain,
    examples_of,
    file_properties,
    reporting,
    warn_unknown,
)

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.types import TopicPartition
    from kafkalog.client.zookeeper.migration import Move
    from kafkalog.client.zookeeper.session import ZooKeeperSession

    Offsets: TypeAlias = Mapping[TopicPartition, int]

EXAMPLES = """\
examples:
  kafkalog offsets migrate --zookeeper localhost:2181 --group words --to kafka
  kafkalog offsets migrate --zookeeper localhost:2181 --all-groups --to kafka --execute
  kafkalog offsets migrate --zookeeper localhost:2181 --group words --to zookeeper --execute
  kafkalog offsets export --zookeeper localhost:2181 --all-groups --output-file offsets.txt
  kafkalog offsets import --zookeeper localhost:2181 --input-file offsets.txt
"""
_KAFKA, _ZOOKEEPER = "kafka", "zookeeper"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `offsets` and its commands."""
    commands = add_command(
        subparsers, "offsets", "move offsets of groups between ZooKeeper and Kafka, or to files", EXAMPLES
    )
    _add_migrate(commands)
    _add_export(commands)
    _add_import(commands)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, more: str
) -> argparse.ArgumentParser:
    parser = action_parser(commands, name, purpose, f"{examples_of(EXAMPLES, f'offsets {name}')}\n\n{more}")
    parser.add_argument(
        "--zookeeper", required=True, metavar="HOST:PORT[,…][/CHROOT]", help="where the offsets are, and the brokers"
    )
    add_zookeeper_security(parser)
    return parser


def _add_migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        commands,
        "migrate",
        "move the committed offsets of groups without members",
        "Without --execute it prints what would be moved. Offsets are copied: those of the source stay. An offset\n"
        "that is behind the target's is not moved unless --overwrite is given, because members that use both stores\n"
        "read the larger one. Exit code 1: a group has members or does not exist, or an offset was not moved.",
    )
    add_groups(parser)
    parser.add_argument("--to", required=True, choices=(_KAFKA, _ZOOKEEPER), help="where the offsets are moved to")
    parser.add_argument("--execute", action="store_true", help="move them")
    parser.add_argument("--overwrite", action="store_true", help="replace larger offsets of the target, too")
    parser.add_argument("--command-config", metavar="FILE", help="a file of client properties")
    add_json(parser)
    parser.set_defaults(run=run_migrate)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        commands,
        "export",
        "write the offsets of groups in ZooKeeper to a file",
        "Each line is /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET, as ExportZkOffsets of Kafka 0.8 writes it.",
    )
    add_groups(parser)
    parser.add_argument("--output-file", metavar="FILE", help="the file (default: standard output)")
    parser.set_defaults(run=run_export)


def _add_import(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        commands,
        "import",
        "write the offsets of a file to ZooKeeper",
        "The file has the lines that `export` writes. Groups with members are refused, and nothing is written then.",
    )
    parser.add_argument("--input-file", required=True, metavar="FILE", help="the file; - for standard input")
    parser.set_defaults(run=run_import)


# export and import


@reporting
def run_export(arguments: argparse.Namespace) -> int:
    """Write lines of offsets; return 1 if a group does not exist."""
    from kafkalog.client.zookeeper.groups import offset_lines, read_group

    found: dict[str, Offsets] = {}
    missing = False
    with open_zookeeper(arguments) as session:
        for name in selected_in_zookeeper(session, arguments):
            group = session.run(read_group(name))
            if group is None:
                complain(f"Consumer group '{name}' does not exist in ZooKeeper.")
                missing = True
            else:
                found[name] = group.offsets
    text = "".join(f"{line}\n" for line in offset_lines(found))
    if arguments.output_file is None:
        sys.stdout.write(text)
    else:
        Path(arguments.output_file).write_text(text, encoding="utf-8")
        print(f"Wrote {sum(map(len, found.values()))} offsets of {len(found)} groups to {arguments.output_file}.")
    return 1 if missing else 0


@reporting
def run_import(arguments: argparse.Namespace) -> int:
    """Write the offsets of a file to ZooKeeper."""
    from kafkalog.client.connector.offset_stores import write_offsets
    from kafkalog.client.zookeeper.groups import OffsetFileError, parse_offset_lines, read_group

    try:
        data = sys.stdin.buffer.read() if arguments.input_file == "-" else Path(arguments.input_file).read_bytes()
        found = parse_offset_lines(data.decode().splitlines())
    except (OSError, UnicodeDecodeError, OffsetFileError) as error:
        raise UsageError(f"--input-file {arguments.input_file}: {error}") from error
    with open_zookeeper(arguments) as session:
        for name in found:
            group = session.run(read_group(name))
            if group is not None and group.members:
                raise UsageError(f"group {name} has members ({', '.join(group.members)}); stop them first")
        for name, offsets in found.items():
            session.run(write_offsets(name, offsets))
    print(f"Wrote {sum(map(len, found.values()))} offsets of {len(found)} groups to ZooKeeper.")
    return 0


# migrate


@reporting
def run_migrate(arguments: argparse.Namespace) -> int:
    """Move offsets and print a row about each; return 1 if something was not moved."""
    from kafkalog.client.admin.groups.group_admin import GroupAdmin

    config = _client(arguments)
    with open_zookeeper(arguments) as session, GroupAdmin(config) as admin:
        names, complete = _groups(session, admin, arguments)
        for name in names:
            complete &= _migrate(session, admin, name, arguments)
    if not arguments.execute:
        complain("nothing was moved; --execute moves the offsets")
    return 0 if complete else 1


def _client(arguments: argparse.Namespace) -> ClientConfig:
    from kafkalog.client.config import ClientConfig

    properties = file_properties(arguments.command_config)
    properties["bootstrap.servers"] = brokers_in_zookeeper(arguments, properties)
    config = ClientConfig.from_dict(properties)
    warn_unknown(config.unknown)
    return config


def _groups(session: ZooKeeperSession, admin: GroupAdmin, arguments: argparse.Namespace) -> Selected:
    """Return the chosen groups; with --all-groups, those of the source."""
    if arguments.group or arguments.to == _KAFKA:
        return Selected(selected_in_zookeeper(session, arguments))
    return selected(admin, arguments)


def _migrate(session: ZooKeeperSession, admin: GroupAdmin, name: str, arguments: argparse.Namespace) -> bool:
    """Move the offsets of one group; return whether all that can be moved was moved."""
    from kafkalog.client.connector.offset_stores import write_offsets
    from kafkalog.client.errors import ConfigError
    from kafkalog.client.types import TopicPartition
    from kafkalog.client.zookeeper.groups import GroupNodes, read_group
    from kafkalog.client.zookeeper.migration import Outcome, plan_moves
    from kafkalog.client.zookeeper.nodes import check_group

    try:
        check_group(name)
    except ConfigError as error:
        complain(f"{error}; ZooKeeper cannot have such a group. Its offsets were not moved")
        return False
    group = session.run(read_group(name)) or GroupNodes([], {}, {})
    committed: Offsets = {tp: each.offset for tp, each in admin.offsets([name])[name].items()}
    members = [*group.members, *(each.member_id for each in admin.describe_groups([name])[name].members)]
    if members:
        complain(f"group {name} has members ({', '.join(members)}); stop them first. Its offsets were not moved")
        return False
    source, target = (group.offsets, committed) if arguments.to == _KAFKA else (committed, group.offsets)
    if not source:
        complain(f"group {name} has no offsets to move")
        return not arguments.group
    topics = admin.cluster.metadata({tp.topic for tp in source}, refresh=True).topics.values()
    exist = {TopicPartition(topic.name, number) for topic in topics for number in topic.partitions}
    moves = plan_moves(source, target, exist, overwrite=arguments.overwrite)
    offsets = {each.partition: each.source for each in moves if each.outcome is Outcome.MOVED}
    if arguments.execute and arguments.to == _KAFKA:
        admin.alter_offsets(name, offsets)
    elif arguments.execute:
        session.run(write_offsets(name, offsets))
    _report(name, moves, arguments)
    return all(each.outcome in (Outcome.MOVED, Outcome.SAME) for each in moves)


def _report(name: str, moves: list[Move], arguments: argparse.Namespace) -> None:
    from kafkalog.client.zookeeper.migration import Outcome

    columns = [
        *OF_PARTITION,
        Column("OFFSET", 15, "offset"),
        Column("BEFORE", 15, "before"),
        Column("OUTCOME", 0, "outcome"),
    ]
    rows = []
    for each in moves:
        outcome = each.outcome.value
        if each.outcome is Outcome.MOVED:
            outcome = f"{'moved' if arguments.execute else 'to be moved'} to {arguments.to}"
        rows.append((name, *each.partition, each.source, each.target, outcome))
    show(columns, rows, as_json=arguments.json)

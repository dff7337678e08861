"""`kafkalog groups list`: the consumer groups of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog.cli.admin.groups.common import IN_ZOOKEEPER, Column, add_json, list_each, open_admin, show, table
from kafkalog.cli.admin.groups.zookeeper import list_all
from kafkalog.cli.shared.client_options import UsageError, add_action, reporting

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.descriptions import GroupListing

EXAMPLES = """\
examples:
  kafkalog groups list --bootstrap-server localhost:9092
  kafkalog groups list --bootstrap-server localhost:9092 --state --type
  kafkalog groups list --bootstrap-server localhost:9092 --state Stable,Empty --type consumer
  kafkalog groups list --zookeeper localhost:2181

Type classic: one of the members assigns the partitions. Type consumer: the coordinator assigns them (KIP-848).
"""

STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("Classic", "Consumer")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `list`."""
    parser = add_action(commands, "list", "list consumer groups", EXAMPLES, zookeeper=IN_ZOOKEEPER)
    parser.add_argument(
        "--state", nargs="?", const="", metavar="STATE,…", help="show states; with a list, only groups in one of them"
    )
    parser.add_argument(
        "--type", nargs="?", const="", metavar="TYPE,…", help="show types; with a list, only groups of one of them"
    )
    add_json(parser)
    parser.set_defaults(run=run_list)


@reporting
def run_list(arguments: argparse.Namespace) -> int:
    """Print the names of groups, one a line, sorted; with their types and states if the options say so.

    A broker that does not answer does not hide the groups of the others, as it does in Kafka's tool. Return 1 then.
    """
    from kafkalog.client.admin.groups.descriptions import is_of_consumers

    if arguments.zookeeper is not None:
        return list_all(arguments)
    states = _known(arguments.state, STATES, "--state")
    types = _known(arguments.type, TYPES, "--type")
    with open_admin(arguments) as admin:
        listed = list_each(admin, states, [each.lower() for each in types])
    _show([each for each in listed.groups if is_of_consumers(each.protocol_type)], arguments)
    listed.complain()
    return int(bool(listed.errors))


def _show(found: Sequence[GroupListing], arguments: argparse.Namespace) -> None:
    if arguments.state is None and arguments.type is None and not arguments.json:
        for each in found:
            print(each.group)
        return
    columns, rows = [Column("GROUP", 25, "group")], [[each.group] for each in found]
    if arguments.type is not None or arguments.json:
        columns.append(Column("TYPE", 20, "type"))
        for row, each in zip(rows, found, strict=True):
            row.append(each.type)
    if arguments.state is not None or arguments.json:
        columns.append(Column("STATE", 20, "state"))
        for row, each in zip(rows, found, strict=True):
            row.append(each.state)
    if arguments.json:
        show(columns, rows, as_json=True)
    else:
        for line in table(columns, rows):
            print(line)


def _known(text: str | None, known: tuple[str, ...], option: str) -> list[str]:
    """Return the words of a list in their proper case.

    Raises:
        UsageError: A word is unknown.
    """
    proper = {each.lower(): each for each in known}
    words = [each.strip() for each in (text or "").split(",") if each.strip()]
    for word in words:
        if word.lower() not in proper:
            raise UsageError(f"{option} {word}: expected some of {', '.join(known)}")
    return [proper[word.lower()] for word in words]

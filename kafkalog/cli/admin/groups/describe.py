"""`kafkalog groups describe`: offsets and lag, members, or states of consumer groups."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkalog.cli.admin.groups.common import (
    IN_ZOOKEEPER,
    OF_PARTITION,
    OF_POSITION,
    Column,
    LogEnds,
    add_groups,
    add_json,
    log_ends,
    open_admin,
    selected,
    show,
)
from kafkalog.cli.admin.groups.zookeeper import describe
from kafkalog.cli.shared.client_options import add_action, complain, complain_of, reporting

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.descriptions import GroupDescription
    from kafkalog.client.admin.groups.lag import PartitionLag
    from kafkalog.client.types import TopicPartition

EXAMPLES = """\
examples:
  kafkalog groups describe --bootstrap-server localhost:9092 --group words
  kafkalog groups describe --bootstrap-server localhost:9092 --all-groups --json
  kafkalog groups describe --bootstrap-server localhost:9092 --group words --members --verbose
  kafkalog groups describe --bootstrap-server localhost:9092 --group words --state
  kafkalog groups describe --zookeeper localhost:2181 --group words

The lag of a partition is its high watermark less the committed offset. It counts offsets, and some of these may have no
record, because of compaction or transaction markers. "-" means: no offset is committed, or no member has the partition.
"""

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `describe`."""
    parser = add_action(commands, "describe", "describe consumer groups", EXAMPLES, zookeeper=IN_ZOOKEEPER)
    add_groups(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--offsets", action="store_true", help="each partition's offset and lag (the default)")
    what.add_argument("--members", action="store_true", help="each member")
    what.add_argument("--state", action="store_true", help="each group's state, coordinator and assignor")
    parser.add_argument("--verbose", action="store_true", help="more columns: epochs, assignments")
    add_json(parser)
    parser.set_defaults(run=run_describe)


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print a table for each group; return 1 if one of them does not exist, or is not described.

    Brokers that do not answer do not hide the groups of the others.
    """
    from kafkalog.client.admin.groups.descriptions import DEAD, EMPTY
    from kafkalog.client.admin.groups.lag import lags

    if arguments.zookeeper is not None:
        return describe(arguments)
    with open_admin(arguments) as admin:
        chosen = selected(admin, arguments)
        outcomes = dict(sorted(admin.describe_groups_each(chosen.names).items()))
        described = {name: each for name, each in outcomes.items() if not isinstance(each, Exception)}
        there = {name: each for name, each in described.items() if each.state != DEAD}
        failed = {name: each for name, each in outcomes.items() if isinstance(each, Exception)}
        ends = LogEnds({}, True)
        # An object of JSON has all columns.
        wide = arguments.json, arguments.verbose or arguments.json
        if arguments.members:
            tables = {name: _members(group, *wide) for name, group in there.items()}
        elif arguments.state:
            tables = {name: _state(group, *wide) for name, group in there.items()}
        else:
            committed = admin.offsets_each(there)
            failed |= {name: each for name, each in committed.items() if isinstance(each, Exception)}
            known = {name: each for name, each in committed.items() if not isinstance(each, Exception)}
            ends = log_ends(admin, _partitions(there, known))
            tables = {name: _lags(lags(there[name], known[name], ends.offsets), wide[1]) for name in known}
    for name in outcomes:
        if name in failed:
            complain_of(failed[name])
            continue
        group = described[name]
        if name not in there:
            complain(f"Consumer group '{name}' does not exist.")
            continue
        if group.state == EMPTY:
            complain(f"Consumer group '{name}' has no active members.")
        elif group.state in REBALANCING:
            complain(f"Consumer group '{name}' is rebalancing.")
        columns, rows = tables[name]
        if not rows and not arguments.members:
            complain(f"Consumer group '{name}' has committed no offsets, and no partitions are assigned.")
        show(columns, [(name, *row) for row in rows], as_json=arguments.json)
    return 0 if chosen.is_whole and ends.is_whole and not failed and len(there) == len(described) else 1


_Table: TypeAlias = tuple[list[Column], list[tuple[Any, ...]]]
"""Columns and rows; the group's name is added before each row."""


def _partitions(
    groups: Mapping[str, GroupDescription], committed: Mapping[str, Collection[TopicPartition]]
) -> set[TopicPartition]:
    """Return the partitions of the groups whose committed offsets are known."""
    wanted = {tp for offsets in committed.values() for tp in offsets}
    return wanted | {tp for name in committed for member in groups[name].members for tp in member.assignment}


def _lags(rows: Iterable[PartitionLag], verbose: bool) -> _Table:
    columns = [*OF_PARTITION]
    columns += [Column("LEADER-EPOCH", 15, "leader_epoch")] if verbose else []
    columns += [
        *OF_POSITION,
        Column("CONSUMER-ID", 15, "consumer_id"),
        Column("HOST", 15, "host"),
        Column("CLIENT-ID", 0, "client_id"),
    ]
    found = []
    for each in rows:
        epoch = None if each.committed is None or each.committed.leader_epoch < 0 else each.committed.leader_epoch
        member = each.member
        found.append(
            (
                *each.partition,
                *((epoch,) if verbose else ()),
                each.committed and each.committed.offset,
                each.end,
                each.lag,
                *((None, None, None) if member is None else (member.member_id, member.host, member.client_id)),
            )
        )
    return columns, found


def _members(group: GroupDescription, as_json: bool, verbose: bool) -> _Table:
    static = as_json or any(member.instance_id for member in group.members)
    columns = [Column("GROUP", 15, "group"), Column("CONSUMER-ID", 15, "consumer_id")]
    columns += [Column("GROUP-INSTANCE-ID", 17, "group_instance_id")] if static else []
    columns += [
        Column("HOST", 15, "host"),
        Column("CLIENT-ID", 15, "client_id"),
        Column("#PARTITIONS", 15, "partitions"),
    ]
    if verbose:
        columns += [
            Column("CURRENT-EPOCH", 15, "current_epoch"),
            Column("CURRENT-ASSIGNMENT", 20, "current_assignment"),
            Column("TARGET-EPOCH", 15, "target_epoch"),
            Column("TARGET-ASSIGNMENT", 20, "target_assignment"),
        ]
    rows = []
    for member in group.members:
        row: list[Any] = [member.member_id]
        row += [member.instance_id] if static else []
        row += [member.host, member.client_id, len(member.assignment)]
        if verbose:
            row += [_epoch(member.epoch), _by_topic(member.assignment)]
            row += [_epoch(group.assignment_epoch), None if member.target is None else _by_topic(member.target)]
        rows.append(tuple(row))
    return columns, rows


def _state(group: GroupDescription, as_json: bool, verbose: bool) -> _Table:
    node_id, host, port, _ = group.coordinator
    columns = [
        Column("GROUP", 15, "group"),
        Column("COORDINATOR (ID)", 25, "coordinator"),
        Column("ASSIGNMENT-STRATEGY", 20, "assignment_strategy"),
        Column("STATE", 20, "state"),
    ]
    coordinator = {"id": node_id, "host": host, "port": port} if as_json else f"{host}:{port} ({node_id})"
    row: list[Any] = [coordinator, group.assignor or None, group.state]
    if verbose:
        columns += [
            Column("GROUP-EPOCH", 15, "group_epoch"),
            Column("TARGET-ASSIGNMENT-EPOCH", 25, "target_assignment_epoch"),
        ]
        row += [_epoch(group.epoch), _epoch(group.assignment_epoch)]
    return [*columns, Column("#MEMBERS", 0, "members")], [(*row, len(group.members))]


def _epoch(epoch: int) -> int | None:
    return None if epoch < 0 else epoch


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found

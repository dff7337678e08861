"""`kafkalog groups reset-offsets`: set the committed offsets of a group, by a rule."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkalog.cli.admin.groups.common import (
    IN_ZOOKEEPER,
    Column,
    add_groups,
    add_json,
    open_admin,
    partitions_of,
    show,
)
from kafkalog.cli.admin.groups.stores import open_store
from kafkalog.cli.admin.groups.times import duration_ms, timestamp_of
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_action,
    add_repeated,
    complain,
    natural,
    reporting,
    whole,
)

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.admin.groups.offset_reset import Plan, Rule
    from kafkalog.client.offsets import Answers
    from kafkalog.client.types import TopicPartition

    Offsets: TypeAlias = Mapping[TopicPartition, int]

EXAMPLES = """\
examples:
  kafkalog groups reset-offsets --bootstrap-server localhost:9092 --group words --topic words --to-earliest
  kafkalog groups reset-offsets … --group words --topic words:0,1 --shift-by -100 --execute
  kafkalog groups reset-offsets … --group words --all-topics --by-duration PT2H --execute
  kafkalog groups reset-offsets … --group words --all-topics --to-current --export > plan.csv
  kafkalog groups reset-offsets … --group words --from-file plan.csv --execute
  kafkalog groups reset-offsets --zookeeper localhost:2181 --group words --all-topics --to-latest --execute

A group that has members is left alone. Without --execute nothing is changed. An offset outside of a partition's log
becomes the nearest end of it, with a warning. Exit code 1: a group was left alone or could not be reset.
"""
COLUMNS = (
    Column("GROUP", 30, "group"),
    Column("TOPIC", 30, "topic"),
    Column("PARTITION", 10, "partition"),
    Column("NEW-OFFSET", 15, "new_offset"),
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `reset-offsets`."""
    purpose = "reset the offsets of consumer groups without members"
    parser = add_action(commands, "reset-offsets", purpose, EXAMPLES, zookeeper=IN_ZOOKEEPER)
    add_groups(parser)
    scope = parser.add_mutually_exclusive_group()
    add_repeated(scope, "--topic", metavar="TOPIC[:N,…]", purpose="a topic, or partitions of it")
    scope.add_argument("--all-topics", action="store_true", help="all partitions that the group has committed")
    rule = parser.add_argument_group("to where").add_mutually_exclusive_group(required=True)
    rule.add_argument("--to-earliest", action="store_true", help="the first offset of each partition")
    rule.add_argument("--to-latest", action="store_true", help="the end of each partition")
    rule.add_argument("--to-current", action="store_true", help="the committed offset, or the end if there is none")
    rule.add_argument("--to-offset", type=natural, metavar="OFFSET", help="this offset")
    rule.add_argument("--shift-by", type=whole, metavar="N", help="N offsets forward, or back if N is negative")
    rule.add_argument(
        "--to-datetime", metavar="TIME", help="the first record at or after YYYY-MM-DDThh:mm:ss.sss (UTC)"
    )
    rule.add_argument("--by-duration", metavar="DURATION", help="the first record of the last PnDTnHnMnS")
    rule.add_argument("--from-file", metavar="FILE", help="the offsets of a plan that --export wrote")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="show the new offsets, commit nothing (the default)")
    how.add_argument("--execute", action="store_true", help="commit the new offsets")
    parser.add_argument("--export", action="store_true", help="print the new offsets as CSV")
    add_json(parser)
    parser.set_defaults(run=run_reset_offsets)


@reporting
def run_reset_offsets(arguments: argparse.Namespace) -> int:
    """Plan, commit if --execute is given, and print the new offsets."""
    if not (arguments.topic or arguments.all_topics or arguments.from_file):
        raise UsageError("one of --all-topics and --topic must say which partitions are reset")
    rules = _rules(arguments)
    plans: dict[str, Offsets] = {}
    left_alone = False
    try:
        with open_admin(arguments) as admin, open_store(admin, arguments) as store:
            chosen = store.selected()
            left_alone = not chosen.is_whole
            active = store.active(chosen.names)
            resets: list[_Reset] = []
            for name in chosen.names:
                if name in active:
                    complain(f"Assignments can only be reset if the group '{name}' is inactive, but {active[name]}")
                    left_alone = True
                elif (reset := _reset(admin, name, store.committed, rules, arguments)) is None:
                    left_alone = True
                else:
                    resets.append(reset)
            logs = _look_up(admin, resets)
            for reset in resets:
                name = reset.group
                plan = _plan(reset, logs)
                if plan is None:
                    left_alone = True
                    continue
                for warning in plan.warnings:
                    complain(warning)
                if arguments.execute:
                    store.commit(name, plan.offsets)
                plans[name] = plan.offsets
    except Exception:
        if arguments.execute and plans:
            # The plans made so far are committed, so print them.
            _print(plans, arguments)
        raise
    _print(plans, arguments)
    return 1 if left_alone else 0


def _rules(arguments: argparse.Namespace) -> Rule | dict[str, Rule]:
    """Return the one rule of all groups, or that of each group in a file.

    Raises:
        UsageError: The file cannot be read or is invalid, or the text is no point in time or no duration.
    """
    from kafkalog.client.admin.groups.offset_reset import ShiftBy, To, ToOffset, ToPlan, ToTimestamp

    try:
        if arguments.from_file is not None:
            return {group: ToPlan(offsets) for group, offsets in _plans_of_file(arguments).items()}
        if arguments.to_datetime is not None:
            return ToTimestamp(timestamp_of(arguments.to_datetime))
        if arguments.by_duration is not None:
            return ToTimestamp(time.time_ns() // 1_000_000 - duration_ms(arguments.by_duration))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if arguments.to_offset is not None:
        return ToOffset(arguments.to_offset)
    if arguments.shift_by is not None:
        return ShiftBy(arguments.shift_by)
    return To.EARLIEST if arguments.to_earliest else To.LATEST if arguments.to_latest else To.CURRENT


def _plans_of_file(arguments: argparse.Namespace) -> dict[str, dict[TopicPartition, int]]:
    """Return the plans of `--from-file`.

    Raises:
        UsageError: The file cannot be read or is invalid.
    """
    from kafkalog.cli.admin.groups.plan_files import read_plans

    where = f"--from-file {arguments.from_file}"
    try:
        with Path(arguments.from_file).open(encoding="utf-8", newline="") as file:
            return read_plans(file, arguments.group)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


class _Reset(NamedTuple):
    """A group to reset: by which rule, and in which partitions."""

    group: str
    rule: Rule
    committed: Offsets
    partitions: list[TopicPartition]

    @property
    def asked(self) -> list[TopicPartition]:
        """The partitions whose logs matter: not those whose committed offsets stay."""
        from kafkalog.client.admin.groups.offset_reset import To

        return [tp for tp in self.partitions if self.rule is not To.CURRENT or tp not in self.committed]


class _Logs(NamedTuple):
    """The starts and ends of logs, and where a time is in them; or the errors of these lookups."""

    starts: Answers
    ends: Answers
    at_time: Answers


def _reset(
    admin: GroupAdmin,
    group: str,
    committed_of: Callable[[str], Offsets],
    rules: Rule | dict[str, Rule],
    arguments: argparse.Namespace,
) -> _Reset | None:
    """Return what is to be reset of a group; None after printing that the file has no plan for it."""
    from kafkalog.client.admin.groups.offset_reset import ToPlan

    rule = rules.get(group) if isinstance(rules, dict) else rules
    if rule is None:
        complain(f"No reset plan for group {group} found")
        return None
    committed = committed_of(group)
    if arguments.topic:
        partitions = partitions_of(admin, arguments.topic)
    else:
        partitions = (
            sorted(rule.offsets) if isinstance(rule, ToPlan) and not arguments.all_topics else sorted(committed)
        )
    return _Reset(group, rule, committed, partitions)


def _look_up(admin: GroupAdmin, resets: Sequence[_Reset]) -> _Logs:
    """Ask for the logs of all groups at once, so that a leader that does not answer is waited for once."""
    from kafkalog.client.admin.groups.offset_reset import ToTimestamp
    from kafkalog.client.offsets import EARLIEST, LATEST, list_offsets_each

    starts = list_offsets_each(admin.cluster, {tp: EARLIEST for each in resets for tp in each.asked})
    answered = [tp for tp, found in starts.items() if not isinstance(found, Exception)]
    ends = list_offsets_each(admin.cluster, dict.fromkeys(answered, LATEST))
    # There is one rule for all groups, or a plan for each. Timestamps below 0 stand for the ends of a log.
    times = {max(each.rule.timestamp, 0) for each in resets if isinstance(each.rule, ToTimestamp)}
    at_times = [list_offsets_each(admin.cluster, dict.fromkeys(answered, each)) for each in times]
    return _Logs(starts, ends, at_times[0] if at_times else {})


def _plan(reset: _Reset, logs: _Logs) -> Plan | None:
    """Return the new offsets of a group; None after printing why there are none.

    Raises:
        KafkaError: A partition does not exist, or its leader refuses to tell its offsets.
    """
    from kafkalog.client.admin.groups.offset_reset import LogRange, ResetError, plan_reset
    from kafkalog.client.errors import ClientTimeoutError
    from kafkalog.client.outcomes import values_of

    def found(answers: Answers) -> dict[TopicPartition, int]:
        mine = {tp: answers[tp] for tp in reset.asked if tp in answers}
        return {tp: each.offset for tp, each in values_of(mine).items()}

    try:
        starts, ends, at_time = map(found, logs)
        ranges = {tp: LogRange(starts[tp], ends[tp]) for tp in reset.asked}
        return plan_reset(reset.rule, reset.partitions, committed=reset.committed, logs=ranges, at_time=at_time)
    except (ResetError, ClientTimeoutError) as error:
        complain(f"group {reset.group}: {error}")
        return None


def _print(plans: Mapping[str, Offsets], arguments: argparse.Namespace) -> None:
    from kafkalog.cli.admin.groups.plan_files import write_plans

    if not (arguments.execute or arguments.dry_run):
        complain("nothing is changed without --execute")
    if arguments.export:
        sys.stdout.write(write_plans(plans, with_group=len(arguments.group) != 1))
        return
    rows = [(group, *tp, offset) for group, offsets in plans.items() for tp, offset in sorted(offsets.items())]
    show(COLUMNS, rows, as_json=arguments.json)

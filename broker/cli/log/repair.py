"""`kafkalog log repair`: put the logs of a stopped broker right."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from broker.cli.log.common import PATHS, Progress, add_command, add_progress, find, reporting
from broker.cli.log.verify import show_finding
from kafkalog.cli.shared.client_options import complain, print_json

if TYPE_CHECKING:
    from broker.log.tools.repair_plan import Plan
    from broker.log.tools.targets import Targets
    from broker.log.tools.verify import Report

EXAMPLES = """\
examples:
  kafkalog log repair --dry-run data
  kafkalog log repair data/words-0
  kafkalog log repair --skip data

For a stopped broker: refused while one holds the directory's lock. Repairs that lose no whole batch are always made: a
batch that is cut off at the end of a log is removed, indexes and leader epochs are rebuilt, and snapshots and rows of
checkpoints that cannot be right are removed. Where sound batches follow damaged ones, choose what to remove:
  --skip      the damaged batches alone; batches without records keep their offsets, as compaction leaves them
  --truncate  everything from the first damaged batch on, as a broker's own recovery does
Everything removed is kept in PARTITION/.repair-TIME, checkpoints as FILE.repair-TIME beside them. Exit code 1: some
damage is left.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `repair`."""
    parser = add_command(
        commands, "repair", "repair the logs of a stopped broker", "Repair log directories, offline.", EXAMPLES
    )
    parser.add_argument("path", nargs="+", metavar="PATH", help=PATHS.replace("a file of one, ", ""))
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, change nothing")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--skip", action="store_true", help="remove the damaged batches only")
    choice.add_argument("--truncate", action="store_true", help="remove everything from the first damaged batch on")
    parser.add_argument(
        "--json", action="store_true", help="one object a line: each repair, and each finding that is left"
    )
    add_progress(parser)
    parser.set_defaults(run=run_repair, quiet=True)


@reporting
def run_repair(arguments: argparse.Namespace) -> int:
    """Check and repair, at most twice; 1 where something is left."""
    from broker.log.tools import repair, verify
    from broker.log.tools.repair_plan import Choice, plan_repair

    found = find(arguments.path)
    if found.files:
        complain(f"{found.files[0]}: name the partition's directory, for what is wrong may be in several files")
        return 2
    tops = sorted({partition.log_dir for partition in found.partitions} | set(map(os.path.abspath, found.log_dirs)))
    choice = Choice.SKIP if arguments.skip else Choice.TRUNCATE if arguments.truncate else Choice.ASK
    stamp = repair.time_stamp()
    with repair.locked(tops):
        report = _check(arguments, found)
        # What lies beside a damaged log, such as snapshots, cannot be judged before the log is repaired.
        for is_first in (True, False):
            plans = [plan_repair(partition, choice) for partition in report.partitions.values()]
            if not is_first and not any(plan.actions for plan in plans):
                break
            _carry_out(arguments, tops, plans, stamp if is_first else f"{stamp}-2")
            if arguments.dry_run:
                left = [finding for plan in plans for finding in plan.left]
                for finding in left:
                    show_finding(arguments, finding)
                return int(bool(left))
            report = verify.verify(find(arguments.path), live=False)
        for finding in report.all_findings:
            show_finding(arguments, finding)
    if not arguments.json:
        print("something is left that is wrong" if report.wrong else "nothing is wrong now")
    return int(report.wrong)


def _check(arguments: argparse.Namespace, found: Targets) -> Report:
    from broker.log.tools import verify

    with Progress(verify.total_bytes(found), arguments.json) as progress:
        # We hold the lock, so no broker writes.
        return verify.verify(found, progress=progress, live=False)


def _carry_out(arguments: argparse.Namespace, tops: list[str], plans: list[Plan], stamp: str) -> None:
    from broker.log.tools import repair
    from broker.log.tools.checks.directory_check import in_service

    def say(text: str) -> None:
        if arguments.json:
            print_json({"type": "act", "dry_run": arguments.dry_run, "act": text})
        else:
            print(f"would {text}" if arguments.dry_run else text, flush=True)

    repairer = repair.Repairer(stamp, say)
    for plan in plans:
        if arguments.dry_run:
            for action in plan.actions:
                say(action.text)
        else:
            repairer.carry_out(plan)
    for top in tops:
        mine = [plan for plan in plans if plan.partition.log_dir == top and in_service(plan.partition)]
        ends = {plan.partition.key: plan.end for plan in mine if plan.partition.key is not None}
        if arguments.dry_run:
            for text in repairer.directory(top, mine, ends):
                say(text)
        else:
            repairer.apply_directory(top, mine, ends)

"""Repairs of a log, and what a broker serves of it afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

from broker.log.log import Log
from broker.log.tools import repair
from broker.log.tools.repair_plan import Choice, plan_repair
from tests.broker.log.support import NOW, stored
from tests.broker.log.tools.damaged import CONFIG, check, errors


def mend(log: Path, choice: Choice = Choice.ASK, *, expect_backup: bool = True) -> Path:
    """Repair; nothing may be wrong afterwards. The backup's directory."""
    report = check(log.parent)
    plans = [plan_repair(partition, choice) for partition in report.partitions.values()]
    said: list[str] = []
    repairer = repair.Repairer("20200101T000000Z", said.append)
    for plan in plans:
        assert plan.left == []
        repairer.carry_out(plan)
    repairer.apply_directory(
        str(log.parent), plans, {plan.partition.key: plan.end for plan in plans if plan.partition.key}
    )
    assert said
    assert errors(log.parent) == []
    backup = log / ".repair-20200101T000000Z"
    assert backup.is_dir() == expect_backup
    return backup


def values(log: Path, *, recovery_point: int = 0) -> list[tuple[int, int]]:
    """Offsets of the batches that a broker serves once it has recovered the log."""
    copy = log.parent.parent / "served" / log.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(log, copy)
    opened = Log.open(copy, CONFIG, clean=False, log_start_offset=0, recovery_point=recovery_point, now_ms=NOW)
    found = [(row.base_offset, row.last_offset) for row in stored(opened)]
    opened.close()
    return found

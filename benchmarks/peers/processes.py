"""The CPU time and the memory of a process together with its descendants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import psutil  # type: ignore[import-untyped]


def cpu_seconds(pid: int) -> float:
    """Return the user and system CPU time so far of a process and its descendants, ended ones included."""

    def spent(process: psutil.Process) -> float:
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    return _total(pid, spent)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants."""
    return round(_total(pid, lambda process: process.memory_info().rss))


def _total(pid: int, of: Callable[[psutil.Process], float]) -> float:
    """Return the sum over a process and its descendants; the process has to run.

    `psutil.Process.children` leaves out a process that seems older than its ancestor, and all below it. Both times
    depend on the clock, so a clock that is being set would take Spark's JVM out of some measurements.
    """
    below: dict[int, list[psutil.Process]] = defaultdict(list)
    for process in psutil.process_iter(["ppid"]):
        below[process.info["ppid"]].append(process)
    total, found = of(psutil.Process(pid)), list(below[pid])
    for process in found:
        found += below[process.pid]
        with suppress(psutil.NoSuchProcess):
            total += of(process)
    return total

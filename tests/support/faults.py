"""Order fault points in processes under test (`spark_kafkalog.faults`)."""

from __future__ import annotations

from pathlib import Path

from spark_kafkalog.faults import ORDERS, TESTING

SINK_DRIVER_POINTS = (
    *("before-claim", "after-claim"),
    *("before-decision", "after-decision", "between-commits", "after-commits", "after-done"),
)
SINK_TASK_POINTS = ("task-begun", "task-unflushed", "task-written", "task-flushed")
SINK_POINTS = (*SINK_DRIVER_POINTS, *SINK_TASK_POINTS)


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a process that takes orders from a directory."""
    return {ORDERS: str(directory), TESTING: "1"}


def place(directory: Path, point: str, signal: str = "SIGKILL", nth: int = 1) -> Path:
    """Order a signal for the first process that passes a point (for the `nth` time). It removes the order first."""
    new = directory / f"{point}.new"
    new.write_text(f"{signal} {nth}")
    return new.rename(directory / point)

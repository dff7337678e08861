"""Fault points: places where a test has this process die or stop, to prove what is left behind.

The one place where production code heeds a test: the environment variable ``KAFKALOG_SINK_FAULTS`` names a directory.
A process that passes a point whose name a file there has, and that removes it, gets the signal that the file names.
Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "KAFKALOG_SINK_FAULTS"
DRIVER_POINTS = (
    *("before-claim", "after-claim"),
    *("before-decision", "after-decision", "between-commits", "after-commits", "after-done"),
)
TASK_POINTS = ("task-begun", "task-unflushed", "task-written", "task-flushed")

_directory = os.environ.get(VARIABLE)


def point(name: str) -> None:
    """Be struck here, if this is the point that was asked for."""
    if _directory is not None:
        _strike(Path(_directory, name))


def _strike(order: Path) -> None:
    try:
        text = order.read_text()
        order.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.Signals[text])

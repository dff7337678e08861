"""Fault points: places where a test has this process die or stop, to prove what is left behind.

The environment variable ``KAFKALOG_SINK_FAULT`` is ``NAME``, ``NAME:N`` for the N-th time that this process passes the
point, or ``NAME:N:SIGNAL`` for another signal than KILL. With ``KAFKALOG_SINK_FAULT_ONCE``, the path of a file, only
the first process that gets there is struck; it makes the file. Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "KAFKALOG_SINK_FAULT"
ONCE = "KAFKALOG_SINK_FAULT_ONCE"

DRIVER_POINTS = (
    "before-claim",
    "after-claim",
    "before-decision",
    "after-decision",
    "between-commits",
    "after-commits",
    "after-done",
)
TASK_POINTS = ("task-begun", "task-unflushed", "task-written", "task-flushed")

_name, _, _rest = os.environ.get(VARIABLE, "").partition(":")
_count, _, _signal = _rest.partition(":")
_left = int(_count or 1)


def point(name: str) -> None:
    """Be struck here, if this is the point that was asked for."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0 and _is_first():
            os.kill(os.getpid(), signal.Signals[f"SIG{_signal or 'KILL'}"])


def _is_first() -> bool:
    path = os.environ.get(ONCE)
    if not path:
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

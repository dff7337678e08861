"""Fault points: places where a test asks this process to die (SIGKILL), to prove what is left behind.

The one place where production code heeds a test: the environment variable ``KAFKALOG_LOAD_FAULT``, ``NAME`` or
``NAME:N`` for the N-th time that the point is passed. Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "KAFKALOG_LOAD_FAULT"
_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count or 1)


def point(name: str) -> None:
    """Die here, if this is the point that was asked for."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

"""Processes that commands start, and that must not outlive them."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent() -> Callable[[], None] | None:
    """Return what a child calls on Linux before its program starts: the kernel ends it when its parent has ended.

    The parent is the thread that starts the child.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)

"""Fault points: places where a test has this process die or stop, to prove what is left behind.

The one place where production code heeds a test. The environment variable ``KAFKALOG_FAULTS`` names a directory of
orders: a file there is named after a point and holds a signal's name, and a number N if the N-th pass of a process is
meant (``SIGKILL 2``). The process that removes the file gets the signal. The variable is refused with a warning unless
``KAFKALOG_TESTING=1`` is set beside it. Without orders a point costs one comparison.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ORDERS = "KAFKALOG_FAULTS"
TESTING = "KAFKALOG_TESTING"

_log = logging.getLogger(__name__)


class Orders:
    """The orders in a directory, and how often this process has passed each point."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._passed: Counter[str] = Counter()

    def heed(self, name: str) -> None:
        """Carry out the order for a point, if there is one."""
        order = self._directory / name
        try:
            number, _, nth = order.read_text().partition(" ")
            with self._lock:
                self._passed[name] += 1
                if self._passed[name] < int(nth or 1):
                    return
            order.unlink()
        except FileNotFoundError:
            # There is none, or another process was faster.
            return
        os.kill(os.getpid(), signal.Signals[number])


def orders_of(environment: Mapping[str, str]) -> Orders | None:
    """The orders that an environment names; None where there are none, or where they are refused."""
    directory = environment.get(ORDERS)
    if not directory:
        return None
    if environment.get(TESTING) != "1":
        _log.warning("%s has no effect without %s=1: it has this process killed, and is for tests", ORDERS, TESTING)
        return None
    return Orders(Path(directory))


def obey(environment: Mapping[str, str]) -> None:
    """Take orders from another environment than the one that the process began with."""
    global _orders
    _orders = orders_of(environment)


def point(name: str) -> None:
    """Be struck here, if there is an order."""
    if _orders is not None:
        _orders.heed(name)


_orders = orders_of(os.environ)

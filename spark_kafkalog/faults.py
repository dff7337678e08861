"""Fault points: places where a test makes this process die or stop, to check what it leaves behind.

This is the only place where production code obeys a test. The environment variable `KAFKALOG_FAULTS` names a
directory of orders. An order is a file named after a point. It holds the name of a signal, and optionally a number N:
then the signal is sent when a process passes the point for the N-th time (`SIGKILL 2`). The process that removes the
file gets the signal. The variable is refused with a warning unless `KAFKALOG_TESTING=1` is set, too. Without orders a
point costs one comparison.
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

logger = logging.getLogger(__name__)


class Orders:
    """Read orders from a directory, and count how often this process has passed each point."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._passed: Counter[str] = Counter()

    def heed(self, name: str) -> None:
        """Send this process the signal that is ordered for a point, if any."""
        order = self._directory / name
        try:
            number, _, nth = order.read_text().partition(" ")
            with self._lock:
                self._passed[name] += 1
                if self._passed[name] < int(nth or 1):
                    return
            order.unlink()
        except FileNotFoundError:
            # There is no order, or another process was faster to remove it.
            return
        os.kill(os.getpid(), signal.Signals[number])


def orders_of(environment: Mapping[str, str]) -> Orders | None:
    """Return the orders that an environment names; None if it names none, or if they are refused."""
    directory = environment.get(ORDERS)
    if not directory:
        return None
    if environment.get(TESTING) != "1":
        logger.warning("%s has no effect without %s=1: it has this process killed, and is for tests", ORDERS, TESTING)
        return None
    return Orders(Path(directory))


def obey(environment: Mapping[str, str]) -> None:
    """Take orders from `environment` instead of the one that the process began with."""
    global _orders
    _orders = orders_of(environment)


def point(name: str) -> None:
    """Mark a place where a test may have this process killed or stopped."""
    if _orders is not None:
        _orders.heed(name)


_orders = orders_of(os.environ)

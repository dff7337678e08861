"""Log once that no broker answers, and once that one answers again, however many threads try meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


def _warn(error: Exception) -> None:
    logger.warning("no broker answers; trying again: %s", error)


class Outage:
    """Keep whether the brokers of one cluster answer. Safe for use by several threads.

    Args:
        report: What is called once in an outage, with the reason; None: a warning is logged.
    """

    def __init__(self, report: Callable[[Exception], None] | None = None) -> None:
        self._report = report or _warn
        self._lock = threading.Lock()
        self._told = False

    def began(self, error: Exception) -> None:
        """Note that no broker has answered, for this reason; report it unless that was done already."""
        with self._lock:
            told, self._told = self._told, True
        if not told:
            self._report(error)

    def over(self, address: str) -> None:
        """Note that the broker at `address` has answered; log it where the outage was reported."""
        if not self._told:
            return
        with self._lock:
            told, self._told = self._told, False
        if told:
            logger.info("connected to %s", address)

"""Log once that no broker answers, and once that one answers again, however many threads try meanwhile."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger(__name__)


class Outage:
    """Keep whether the brokers of one cluster answer. Safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = False

    def began(self, error: Exception) -> None:
        """Note that no broker has answered, for this reason; log a warning unless one was logged already."""
        with self._lock:
            told, self._told = self._told, True
        if not told:
            logger.warning("no broker answers; trying again: %s", error)

    def over(self, address: str) -> None:
        """Note that the broker at `address` has answered; log it where the outage was logged."""
        if not self._told:
            return
        with self._lock:
            told, self._told = self._told, False
        if told:
            logger.info("connected to %s", address)

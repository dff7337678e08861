"""Telling that no broker answers: once when it begins, once when it is over, however many threads try meanwhile."""

from __future__ import annotations

import logging
import threading

_log = logging.getLogger(__name__)


class Outage:
    """Whether the brokers of one cluster answer. Safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = False

    def began(self, error: Exception) -> None:
        """No broker has answered, for this reason; a warning, unless there was one already."""
        with self._lock:
            told, self._told = self._told, True
        if not told:
            _log.warning("no broker answers; trying again: %s", error)

    def over(self, address: str) -> None:
        """The broker at ``address`` has answered; told where it was told that none does."""
        if not self._told:
            return
        with self._lock:
            told, self._told = self._told, False
        if told:
            _log.info("connected to %s", address)

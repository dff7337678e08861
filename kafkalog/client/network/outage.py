"""Log once that no broker answers, and once that one answers again, however many threads try meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

SILENCE_S = 5.0
"""Brokers that refuse no connection and do not answer for so long are an outage. They may be slow rather than gone, and
some callers look again after a quarter of a second."""


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
        self._silent_since: float | None = None
        self._silent_until = 0.0

    def began(self, error: Exception, silent_since: float | None = None) -> None:
        """Note that no broker has answered, for this reason; report it unless that was done already.

        Args:
            error: the reason.
            silent_since: when they were asked (`time.monotonic`), if one of them took the request and has not answered
                in the caller's time. It is reported once that lasts.
        """
        with self._lock:
            if silent_since is not None and not self._told:
                # `heard` sets it without the lock, at any moment.
                since = self._silent_since
                if since is None or silent_since - self._silent_until > SILENCE_S:
                    since = silent_since
                self._silent_since, self._silent_until = since, time.monotonic()
                if self._silent_until - since < SILENCE_S:
                    return
            told, self._told = self._told, True
        if not told:
            self._report(error)

    def heard(self) -> None:
        """Note that some broker has answered something."""
        self._silent_since = None

    def over(self, address: str) -> None:
        """Note that the broker at `address` has answered; log it where the outage was reported."""
        self.heard()
        if not self._told:
            return
        with self._lock:
            told, self._told = self._told, False
        if told:
            logger.info("connected to %s", address)

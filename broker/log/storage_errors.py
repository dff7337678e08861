"""Reactions of a log to disk errors: an answer KAFKA_STORAGE_ERROR, a line in the broker's log, or going offline."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.segment.segment_files import SegmentWriteError
from kafkalog.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

COMPLAINT_SECONDS = 10.0
"""A log reports its storage errors at most this often."""


class StorageErrors:
    """Handle the disk errors of one log. May be called on any thread.

    Args:
        seconds: a monotonic clock.

    Attributes:
        offline: why the log takes no more appends, or None.
        on_offline: called with the log directory and the reason when an error of the disk takes the log offline, on
            the thread on which that happens.
    """

    __slots__ = ("_complained_at", "_complaints", "_directory", "_seconds", "offline", "on_offline")

    def __init__(self, directory: PartitionDirectory, seconds: Callable[[], float]) -> None:
        self._directory = directory
        self._seconds = seconds
        self._complained_at = -math.inf
        self._complaints = 0
        self.offline: str | None = None
        self.on_offline: Callable[[Path, str], None] | None = None

    def offline_error(self) -> KafkaStorageError:
        """Return the error of an operation that needs a log which is online."""
        return KafkaStorageError(f"{self._directory.label} is offline: {self.offline}")

    def report(self, act: str, error: OSError) -> KafkaStorageError:
        """Return the error to raise when the log could not `act`; take the log offline if its files are in doubt."""
        if isinstance(error, SegmentWriteError):
            self.go_offline(f"cannot {act} it: {error}")
        else:
            self.complain(f"Cannot {act} {self._directory.path}: {error}")
        return KafkaStorageError(f"Cannot {act} {self._directory.label}: {error}")

    def complain(self, what: str) -> None:
        """Write `what` to the broker's log, at most once in `COMPLAINT_SECONDS`.

        On a full disk producers retry many times a second.
        """
        now = self._seconds()
        if now - self._complained_at < COMPLAINT_SECONDS:
            self._complaints += 1
            return
        more = f" (and {self._complaints} times more since the last such line)" if self._complaints else ""
        logger.error("%s%s", what, more)
        self._complained_at, self._complaints = now, 0

    def go_offline(self, reason: str) -> None:
        """Let the log take no more appends. The first reason stays."""
        if self.offline is None:
            self.offline = reason
            path = self._directory.path
            logger.error("%s goes offline: %s", path, reason)
            if self.on_offline is not None:
                self.on_offline(path.parent, f"{self._directory.label}: {reason}")

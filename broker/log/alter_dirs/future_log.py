"""One move under way: the copy and how far it is."""

from __future__ import annotations

import threading
from pathlib import Path

from broker.log.log import Log


class FutureLog:
    """The copy of a log that is to take its place. The loop's thread makes and ends it; any thread may read it.

    Attributes:
        log: what is copied.
        dir: the directory of the copy.
        log_end_offset: everything before it has been copied.
        size: bytes of the segments copied.
        settling: whether flushes of the log wait for it.
        ended: set when the move is over, whatever came of it.
    """

    def __init__(self, log: Log, directory: Path) -> None:
        self.log = log
        self.dir = directory
        self.log_end_offset = log.log_start_offset
        self.size = 0
        self.settling = False
        self.ended = threading.Event()

    @property
    def log_dir(self) -> Path:
        return self.dir.parent

    @property
    def offset_lag(self) -> int:
        """How many offsets it is behind the log."""
        return max(self.log.log_end_offset - self.log_end_offset, 0)

"""The copy that one move is making, and its progress."""

from __future__ import annotations

import threading
from pathlib import Path

from broker.log.log import Log


class FutureLog:
    """Describe the copy that is to take a log's place.

    The event loop's thread makes and ends it; any thread may read it.

    Attributes:
        log: the log that is copied.
        dir: the directory of the copy.
        log_end_offset: everything before it has been copied.
        size: bytes of the segments that were copied.
        settling: whether flushes of the log are held for this move.
        ended: set when the move is over, whether it succeeded or not.
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
        """The number of offsets by which the copy is behind the log."""
        return max(self.log.log_end_offset - self.log_end_offset, 0)

"""Objects that the logs of one broker share: file operations, a clock, the budget of open files, flush statistics."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock

from broker.log.files.file_ops import OS, FileOps
from broker.log.files.flush_stats import FlushStats
from broker.log.files.open_files import OpenFiles


@dataclass(slots=True)
class Chores:
    """Flags for the kinds of work that logs have for a worker, so that it does not look at all logs for nothing.

    Any thread sets a flag after it has made the work. A worker clears it before it looks at all logs, and each log that
    has work left sets it again.
    """

    flushes: bool = True
    """Set if some log may be due for a flush, now or later."""
    deletions: bool = True
    """Set if some log has removed segments whose files are still there."""


@dataclass(frozen=True, slots=True)
class LogResources:
    """Hold the objects that the logs of one broker share. Two brokers in one process have one each."""

    ops: FileOps = OS
    """The file operations."""
    open_files: OpenFiles = field(default_factory=OpenFiles)
    """The budget of open files and maps."""
    flush_stats: FlushStats = field(default_factory=FlushStats)
    """Counts the flushes of segments."""
    seconds: Callable[[], float] = time.monotonic
    """A monotonic clock, called on any thread."""
    make_lock: Callable[[], AbstractContextManager[object]] = Lock
    """Makes a lock of the workers that flush and move logs (`Workers.make_lock`)."""
    chores: Chores = field(default_factory=Chores)
    """The work that the logs have for workers."""

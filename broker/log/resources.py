"""What the logs of one broker share: files, a clock, the budget of descriptors, the time that flushes took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.log.files.file_ops import OS, FileOps
from broker.log.files.open_files import OpenFiles
from broker.log.flush_stats import FlushStats


@dataclass(frozen=True, slots=True)
class LogResources:
    """See the module. Two brokers in one process have one each.

    Attributes:
        seconds: a clock that goes on evenly. Called on any thread.
    """

    ops: FileOps = OS
    open_files: OpenFiles = field(default_factory=OpenFiles)
    flush_stats: FlushStats = field(default_factory=FlushStats)
    seconds: Callable[[], float] = time.monotonic

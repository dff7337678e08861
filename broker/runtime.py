"""What a broker takes from the world around it: an event loop, clocks, workers, network, files, and chance.

Each broker has one ``Runtime`` and hands it to its parts. Nothing in ``broker`` reads a clock, starts a thread or
draws a random number by another way where the outcome matters, so that several brokers can run in one process, and a
simulator can run them on a time of its own, with workers whose order a seed decides.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.log.files.file_ops import OS, FileOps
from broker.net.network import LoopNetwork, Network
from broker.system.workers import ThreadWorkers, Workers


def wall_clock_ms() -> int:
    """Milliseconds since the epoch, by the system's clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Runtime:
    """See the module.

    Attributes:
        loop: the event loop, whose ``time`` is the clock that never jumps.
        workers: threads for what would block the loop.
        now_ms: the clock on the wall, milliseconds since the epoch. Called on any thread.
        network: connections to other brokers, and listeners.
        files: the calls by which files are changed.
        random: the source of every choice that is left to chance. Used on the loop's thread.
        seconds: the clock that work is measured by, as long as it takes: for turns, metrics, and quotas of the loop's
            time. Called on any thread.
    """

    loop: asyncio.AbstractEventLoop
    workers: Workers
    network: Network
    now_ms: Callable[[], int] = wall_clock_ms
    files: FileOps = OS
    random: random.Random = field(default_factory=random.Random)
    seconds: Callable[[], float] = time.perf_counter

    @classmethod
    def of_process(cls, threads: int, files: FileOps = OS) -> Runtime:
        """Make the runtime of a broker that has the process to itself; called on its event loop."""
        loop = asyncio.get_running_loop()
        return cls(loop, ThreadWorkers(threads), LoopNetwork(loop), files=files)

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that goes on evenly, whatever becomes of the one on the wall."""
        return int(self.loop.time() * 1000)

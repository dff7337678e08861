"""Everything a broker uses from outside: loop, clocks, workers, network, files, random numbers, garbage collector.

Each broker has one `Runtime` and hands it to its parts. Where the outcome matters, code in `broker` reads clocks,
starts threads and draws random numbers only through it. So several brokers can run in one process, and a simulator can
run them on simulated time, with workers whose order a seed decides.

A few threads are started elsewhere. They change no state that a simulated broker's outcome depends on:

- Compiled kernels belong to the process. Threads of `kafkalog.records.kernels.loader`, `broker.main` and, for its own,
  `log.cleaner.log_cleaner` load them.
- kazoo has threads for its session with ZooKeeper (`zookeeper.kazoo_client`).
- Look-ups of hosts have a thread each (`net.sockets.host_lookup`); a simulated network needs none.
- The endpoint of metrics has threads that read the broker's state (`metrics.endpoint`), where a listener is configured.
- Commands for a log directory have their own (`log.tools`, `cli`).
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from broker.log.files.file_ops import OS, FileOps
from broker.net.sockets.network import LoopNetwork, Network
from broker.system.collector import OWN_COLLECTOR, PROCESS_COLLECTOR, Collector
from broker.system.workers import ThreadWorkers, Workers
from broker.zookeeper.interface import ZooKeeper
from kafkalog.zookeeper.security import PLAIN, Security


def wall_clock_ms() -> int:
    """Return the milliseconds since the epoch by the system's clock."""
    return time.time_ns() // 1_000_000


class OpenZooKeeper(Protocol):
    """Opens a session with ZooKeeper."""

    async def __call__(
        self, address: str, *, session_timeout: float, connect_timeout: float, security: Security = PLAIN
    ) -> ZooKeeper:
        """Open a session with a ZooKeeper at `address`; durations in seconds.

        Raises:
            ZooKeeperError: there is none.
        """


async def over_kazoo(
    address: str, *, session_timeout: float, connect_timeout: float, security: Security = PLAIN
) -> ZooKeeper:
    """Open a session over kazoo, which is loaded now: a broker that is a cluster of its own does not need it.

    Raises:
        ZooKeeperError: no server answers, or it refuses the login.
    """
    from broker.zookeeper.kazoo_client import KazooSession

    return await KazooSession.connect(
        address, session_timeout=session_timeout, connect_timeout=connect_timeout, security=security
    )


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that a broker uses from outside."""

    loop: asyncio.AbstractEventLoop
    """The event loop, whose `time` is the monotonic clock."""
    workers: Workers
    """Threads for work that would block the loop."""
    network: Network
    """Opens connections to other brokers, and binds listeners."""
    now_ms: Callable[[], int] = wall_clock_ms
    """The wall clock, in milliseconds since the epoch. Called on any thread."""
    files: FileOps = OS
    """The calls that change files."""
    random: random.Random = field(default_factory=random.Random)
    """The source of all random numbers. Used on the loop's thread."""
    seconds: Callable[[], float] = time.perf_counter
    """The clock that measures how long work takes: for turns, metrics, and quotas of the loop's time. Called on any
    thread."""
    collector: Collector = PROCESS_COLLECTOR
    """The garbage collector."""
    open_zookeeper: OpenZooKeeper = over_kazoo
    """Opens a session with ZooKeeper, for a member of a cluster."""

    @classmethod
    def of_process(cls, threads: int, files: FileOps = OS) -> Runtime:
        """Make the runtime of the only broker of a process; call it on the broker's event loop."""
        loop = asyncio.get_running_loop()
        return cls(loop, ThreadWorkers(threads), LoopNetwork(loop), files=files, collector=OWN_COLLECTOR)

    def uuid4(self) -> uuid.UUID:
        """Return a random id. Call it on the loop's thread."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def monotonic_ms(self) -> int:
        """Return the milliseconds of the monotonic clock, which does not follow changes of the wall clock."""
        return int(self.loop.time() * 1000)

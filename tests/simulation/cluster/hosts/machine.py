"""A host with a disk, and the processes of a broker that run on it one after the other."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path

from broker.config.server import BrokerConfig
from broker.net.links.link import Link, LinkSettings
from broker.replica.partition import Partition
from broker.runtime import Runtime
from broker.server import Server
from kafkalog.zookeeper.security import PLAIN, Security
from tests.simulation.cluster.hosts.disk import HostDisk, HostFiles
from tests.simulation.cluster.hosts.workers import LONGEST_S, ProcessWorkers
from tests.simulation.cluster.hosts.world import Life, ProcessLoop, World
from tests.simulation.host import PORT, NoCollector
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import EPOCH_MS
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

logger = logging.getLogger(__name__)

ZOOKEEPER = "zookeeper"
NOTICED = 2 / 3
"""After this part of the time-out a client of ZooKeeper takes a silent connection for broken, as Kafka's does."""
DIRECTORIES = ("a", "b")
START_RETRY_S = 1.0
STOP_S = 60.0
"""A broker that has not stopped by then is killed, as a supervisor does."""


class Machine:
    """A host that runs one broker.

    Args:
        settings: the configuration of the first process.
        later_settings: that of all others.

    Attributes:
        number: the broker's id.
        name: the host's name.
        disk: its disk.
        server: the broker of the present process, or None; while it starts, its parts may be missing.
        session: its session with ZooKeeper, or None.
        clock_skew_ms: how far its wall clock is ahead.
        blank: the descriptors of processes that were killed.
        on_start, on_end: called when a process begins, and when one was killed.
    """

    def __init__(
        self,
        world: World,
        kernel: ProcessLoop,
        network: SimulatedNetwork,
        ensemble: SimulatedEnsemble,
        number: int,
        directory: Path,
        settings: dict[str, str],
        later_settings: dict[str, str],
        chance: random.Random,
    ) -> None:
        self._world = world
        self._kernel = kernel
        self._network = network
        self._ensemble = ensemble
        self._chance = chance
        self.number = number
        self.name = f"host{number}"
        self.disk = HostDisk(directory / self.name, DIRECTORIES)
        dirs = ",".join(map(str, self.disk.directories))
        own = {"broker.id": str(number), "listeners": f"PLAINTEXT://{self.name}:{PORT}", "log.dirs": dirs}
        self._configs = BrokerConfig({**own, **settings}), BrokerConfig({**own, **later_settings})
        self.server: Server | None = None
        self.session: SimulatedSession | None = None
        self.loop: ProcessLoop | None = None
        self.is_up = False
        self._has_started = False
        self.clock_skew_ms = 0
        self.blank: list[int] = []
        self._files: HostFiles | None = None
        self._workers: ProcessWorkers | None = None
        self._lives = 0
        self._wanted = False
        self._timeout = 0.0
        self.on_start: Callable[[Machine], None] = lambda machine: None

    # The process

    @property
    def is_serving(self) -> bool:
        """Return whether the broker has started, and does not stop."""
        return self.is_up and self.loop is not None

    @property
    def replicas(self) -> list[Partition]:
        """Return the replicas of a broker that has started, until it has closed its logs.

        One that stops serves them for as long as the controller moves its leaderships.
        """
        server = self.server
        if server is None or not self._has_started:
            return []
        found = [each for each in server.replicas if each.log.offline is None]
        return found if self.is_up else [each for each in found if server.logs.get(*each.key) is each.log]

    def start(self) -> None:
        """Begin a process, unless there is one."""
        self._wanted = True
        if self.loop is not None:
            return
        self._lives += 1
        if self.name in self._network.down:
            self._network.down.discard(self.name)
            # The peers' connections to the process of before are unknown here.
            self._network.reset(self.name)
        loop = self.loop = self._world.loop(f"{self.name}.{self._lives}")
        chance = random.Random(self._chance.getrandbits(64))
        self._files = HostFiles(self.disk)
        self._workers = ProcessWorkers(loop, chance)
        runtime = Runtime(
            loop,
            self._workers,
            self._network.host(self.name, loop),
            now_ms=lambda: EPOCH_MS + int(loop.time() * 1000) + self.clock_skew_ms,
            random=chance,
            seconds=loop.time,
            files=self._files,
            collector=NoCollector(),
            open_zookeeper=self._open_zookeeper,
        )
        self.server = server = Server(self._configs[self._lives > 1], runtime)
        loop.call_soon(lambda: loop.create_task(self._serve(server, loop)))

    async def _serve(self, server: Server, loop: ProcessLoop) -> None:
        """Do what `broker.main` does: a process that cannot start ends, and its supervisor starts another one."""
        try:
            await server.start()
        except Exception as error:
            logger.info("%s does not start: %r", loop, error)
            self._kernel.call_soon(self._ended, loop)
            return
        self.is_up = self._has_started = True
        self.on_start(self)
        await server.failed.wait()
        self._kernel.call_soon(self._ended, loop)

    def _ended(self, loop: ProcessLoop) -> None:
        if self.loop is loop:
            self.kill()
            self._wanted = True
            self._kernel.call_later(START_RETRY_S, self._start_if_wanted)

    def _start_if_wanted(self) -> None:
        if self._wanted:
            self.disk.repair()
            self.start()

    def kill(self, *, power: bool = False) -> None:
        """End the process at once; with `power`, the whole host: the disk loses what was not synced."""
        self._wanted = False
        loop = self.loop
        if loop is None:
            return
        loop.kill()
        self.loop = self.server = None
        self.is_up = self._has_started = False
        assert self._files is not None
        self._files.is_dead = True
        if power:
            self._network.down.add(self.name)
        self._network.end_process(self.name)
        self.blank += self.disk.blank_files()
        if power:
            self.disk.lose_power(self._chance)
        if self.session is not None:
            self.session.cut(there=True, back=True)
            self.session.silence(self._heard_ago())
            self.session = None

    async def stop(self) -> None:
        """Stop the broker in order, as SIGTERM does; one that is starting is killed."""
        self._wanted = False
        server, loop = self.server, self.loop
        if server is None or loop is None:
            return
        if not self.is_up:
            self.kill()
            return
        self.is_up = False
        done = self._kernel.create_future()

        def end() -> None:
            if not done.done():
                done.set_result(None)

        async def run() -> None:
            try:
                await server.stop()
            finally:
                self._kernel.call_soon(end)

        loop.call_soon(lambda: loop.create_task(run()))
        self._kernel.call_later(STOP_S, end)
        await done
        if self.loop is loop:
            self.kill()

    def lose_role(self, chance: random.Random) -> None:
        """Have the broker stop one of its replicas, if it serves any."""
        loop, server = self.loop, self.server
        if not self.is_serving or loop is None or server is None or not len(server.replicas):
            return
        key = chance.choice(sorted(partition.key for partition in server.replicas))
        loop.call_soon(server.replicas.stop_partition, *key)

    def freeze(self) -> None:
        """Stop the process without ending it; ZooKeeper hears nothing of it."""
        if self.loop is not None:
            self.loop.freeze()
            if self.session is not None and self.session.is_connected:
                self.session.silence(self._heard_ago())

    def thaw(self) -> None:
        """Let it go on. A client that was silent for too long finds its connection closed, a while later."""
        loop, session = self.loop, self.session
        if loop is None:
            return
        loop.thaw()
        if session is not None and session.is_connected:
            if session.has_expired:
                self._later(0.05, self._break_session)
            elif not session.is_mute:
                session.speak()

    def slow_down(self, longest_s: float | None) -> None:
        """Let work of the disk wait for so long, at most; None for as usual."""
        if self._workers is not None:
            self._workers.longest_s = LONGEST_S if longest_s is None else longest_s

    # The session with ZooKeeper

    async def _open_zookeeper(
        self, address: str, *, session_timeout: float, connect_timeout: float, security: Security = PLAIN
    ) -> SimulatedSession:
        while not self._network.can_connect(self.name, ZOOKEEPER):
            await asyncio.sleep(0.2)
        assert self.loop is not None
        self._timeout = session_timeout
        self.session = SimulatedSession(self._ensemble, session_timeout, self.loop)
        return self.session

    def ways_changed(self) -> None:
        """Take note of a cut, or of a heal, between this host and ZooKeeper."""
        session = self.session
        if session is None:
            return
        cuts = self._network.cuts
        session.cut(there=(self.name, ZOOKEEPER) in cuts, back=(ZOOKEEPER, self.name) in cuts)
        if session.is_mute:
            session.silence(self._heard_ago())
        if session.is_cut_off:
            self._later(self._timeout * NOTICED, self._notice)
        elif session.is_connected and not session.has_expired:
            if self.loop is not None and self.loop.life is Life.RUNS:
                session.speak()
        else:
            self._break_session()

    def break_session(self) -> None:
        """End the connection to ZooKeeper, as a change of its leader does; it comes back by itself."""
        self._later(0.0, self._break_session)

    def _notice(self) -> None:
        if self.session is not None and self.session.is_cut_off:
            self._break_session()

    def _break_session(self) -> None:
        if self.session is not None:
            self.session.disconnect()
            self._later(self._chance.uniform(0.02, 0.5), self._reconnect, self.session)

    def _reconnect(self, session: SimulatedSession) -> None:
        if session is not self.session or session.is_connected:
            return
        if session.is_cut_off or not self._network.can_connect(self.name, ZOOKEEPER):
            self._later(0.25, self._reconnect, session)
        else:
            session.reconnect()

    def _heard_ago(self) -> float:
        return self._chance.uniform(0, self._timeout / 3)

    def _later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        if self.loop is not None:
            self.loop.call_later(seconds, callback, *args)


def link(network: SimulatedNetwork, loop: ProcessLoop, client: str, machine: Machine, chance: random.Random) -> Link:
    """Make a link from a client's host to a broker."""
    return Link(
        machine.name,
        PORT,
        LinkSettings(client, connect_timeout=4.0, request_timeout=6.0),
        loop=loop,
        workers=ProcessWorkers(loop, chance),
        chance=chance,
        network=network.host(client, loop),
    )

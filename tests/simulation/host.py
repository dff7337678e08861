"""A broker on a simulated host, and links to it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from broker.config.server import BrokerConfig
from broker.log.files.file_ops import OS, FileOps
from broker.net.links.link import Link, LinkSettings
from broker.runtime import Runtime
from broker.server import Server
from kafkalog.protocol.schema import Request
from kafkalog.zookeeper.security import PLAIN, Security
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import EPOCH_MS
from tests.simulation.workers import SimulatedWorkers
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

PORT = 9092


class NoCollector:
    """The simulated hosts share a process, and none of them changes when its garbage is collected."""

    def hold_full(self) -> None: ...
    def resume_full(self) -> None: ...
    def collect(self) -> None: ...
    def freeze(self) -> None: ...


class SimulatedHost:
    """A host named `name`, whose broker keeps its log in `directory`.

    Args:
        ensemble: the ZooKeeper of a broker that is a member of a cluster.
        files: the calls that change files.

    Attributes:
        session: the session of such a broker.
        link: requests to the broker, from another host.
    """

    def __init__(
        self,
        network: SimulatedNetwork,
        name: str,
        directory: Path,
        settings: dict[str, str],
        chance: random.Random,
        ensemble: SimulatedEnsemble | None = None,
        files: FileOps = OS,
    ) -> None:
        self._network = network
        self._ensemble = ensemble
        self._files = files
        self._chance = chance
        self._config = BrokerConfig({"listeners": f"PLAINTEXT://{name}:{PORT}", "log.dirs": str(directory), **settings})
        self.name = name
        self.link = self.link_to(PORT)

    def link_to(self, port: int) -> Link:
        """Make a link to one of the broker's listeners, from another host."""
        loop = self._network.loop
        return Link(
            self.name,
            port,
            LinkSettings("simulation"),
            loop=loop,
            workers=SimulatedWorkers(loop, self._chance),
            chance=self._chance,
            network=self._network.host("client"),
        )

    async def start(self) -> None:
        loop = self._network.loop
        runtime = Runtime(
            loop,
            SimulatedWorkers(loop, self._chance),
            self._network.host(self.name),
            now_ms=lambda: EPOCH_MS + int(loop.time() * 1000),
            random=self._chance,
            seconds=loop.time,
            files=self._files,
            collector=NoCollector(),
            open_zookeeper=self._open_zookeeper,
        )
        self.server = Server(self._config, runtime)
        await self.server.start()

    async def _open_zookeeper(
        self, address: str, *, session_timeout: float, connect_timeout: float, security: Security = PLAIN
    ) -> SimulatedSession:
        assert self._ensemble is not None
        self.session = SimulatedSession(self._ensemble, session_timeout)
        return self.session

    async def stop(self) -> None:
        await self.server.stop()
        self.server.runtime.workers.close(wait=True)

    async def ask(self, request: Request, version: int) -> Any:
        """Send a request to the broker; return its response."""
        return await asyncio.wait_for(self.link.send(request, max_version=version), 60)

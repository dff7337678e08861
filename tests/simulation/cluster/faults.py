"""Random faults, each of which lasts for a while, and the end of all of them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

from broker.metadata.znodes import paths
from broker.zookeeper.interface import Delete, MultiError, NoNodeError
from tests.simulation.cluster.checks.invariants import Invariants
from tests.simulation.cluster.hosts.machine import ZOOKEEPER, Machine
from tests.simulation.cluster.hosts.world import ProcessLoop
from tests.simulation.network import SimulatedNetwork
from tests.simulation.zookeeper import SimulatedEnsemble

Fault = Callable[[], Coroutine[Any, Any, None]]
NOBODY = 0
"""A session of no broker, for what is changed in ZooKeeper by hand."""
LONGEST_S = 9.0
"""Longer than a session's time-out."""
AT_ONCE = 3
"""The number of faults that may last at the same time."""


class Faults:
    """Chooses faults and brings them about.

    Args:
        kernel: the loop of what is outside of all processes.
        loses_power: whether hosts may lose their power.
        disks_fail: whether log directories may fail.
        loses_roles: whether brokers may lose roles that the controller believes they have.
        cuts_controller: whether single brokers may lose their ways to the controller.
        share: how likely each kind is to happen at all.

    Attributes:
        counts: how often each kind happened.
    """

    def __init__(
        self,
        kernel: ProcessLoop,
        network: SimulatedNetwork,
        ensemble: SimulatedEnsemble,
        machines: list[Machine],
        clients: list[str],
        invariants: Invariants,
        chance: random.Random,
        *,
        loses_power: bool,
        disks_fail: bool,
        loses_roles: bool,
        cuts_controller: bool,
        share: float,
    ) -> None:
        self._kernel = kernel
        self._network = network
        self._ensemble = ensemble
        self._machines = machines
        self._clients = clients
        self._invariants = invariants
        self._chance = chance
        self.counts: dict[str, int] = {}
        self._lasting: list[asyncio.Task[None]] = []
        self._kinds: list[tuple[Fault, int]] = [
            (self._kill, 4),
            (self._kill_all, 1),
            (self._stop, 3),
            (self._roll, 1),
            (self._freeze, 3),
            (self._cut_brokers, 3),
            (self._isolate, 2),
            (self._cut_zookeeper, 3),
            (self._cut_client, 1),
            (self._reset_connections, 2),
            (self._shake_sessions, 2),
            (self._move_controller, 2),
            (self._slow_disk, 2),
            (self._skew_clock, 1),
        ]
        if loses_power:
            self._kinds += [(self._lose_power, 4), (self._lose_all_power, 1)]
        if disks_fail:
            self._kinds += [(self._fail_directory, 2)]
        if loses_roles:
            self._kinds += [(self._lose_role, 3)]
        if cuts_controller:
            self._kinds += [(self._cut_controller, 4)]
        if share < 1:
            self._kinds = [each for each in self._kinds if chance.random() < share] or self._kinds

    async def run(self, seconds: float) -> None:
        """Let things go wrong for so long."""
        end = self._kernel.time() + seconds
        kinds, weights = zip(*self._kinds, strict=True)
        while self._kernel.time() < end:
            await asyncio.sleep(self._chance.expovariate(1 / 2.0))
            self._lasting = [each for each in self._lasting if not each.done()]
            if len(self._lasting) < AT_ONCE:
                (fault,) = self._chance.choices(kinds, weights)
                name = fault.__name__.strip("_")
                self.counts[name] = self.counts.get(name, 0) + 1
                self._lasting.append(self._kernel.create_task(fault()))

    async def heal(self) -> None:
        """End all faults; every machine runs afterwards."""
        await asyncio.gather(*self._lasting)
        self.heal_network()
        for machine in self._machines:
            machine.thaw()
            machine.slow_down(None)
            if machine.disk.failed:
                # A broker uses a directory again only after a start.
                machine.kill()
                machine.disk.repair()
            machine.start()

    def heal_network(self) -> None:
        """Let everything arrive everywhere."""
        for source, target in sorted(self._network.cuts):
            self._network.heal(source, target)
        for machine in self._machines:
            machine.ways_changed()

    async def _while(self, longest: float = LONGEST_S) -> None:
        await asyncio.sleep(self._chance.choice((0.3, 1.0)) * self._chance.uniform(0, longest))

    # Processes

    async def _kill(self) -> None:
        machine = self._chance.choice(self._machines)
        machine.kill()
        await self._while()
        machine.start()

    async def _kill_all(self) -> None:
        for machine in self._machines:
            machine.kill()
            await asyncio.sleep(self._chance.choice((0.0, self._chance.uniform(0, 2))))
        for machine in self._chance.sample(self._machines, len(self._machines)):
            await self._while(3.0)
            machine.start()

    async def _lose_power(self) -> None:
        machine = self._chance.choice(self._machines)
        self._invariants.lose_power(machine)
        await self._while()
        machine.start()

    async def _lose_all_power(self) -> None:
        for machine in self._machines:
            self._invariants.lose_power(machine)
        for machine in self._chance.sample(self._machines, len(self._machines)):
            await self._while(3.0)
            machine.start()

    async def _stop(self) -> None:
        machine = self._chance.choice(self._machines)
        await machine.stop()
        await self._while(4.0)
        machine.start()

    async def _roll(self) -> None:
        """Restart one after the other, as an upgrade does."""
        for machine in self._machines:
            await machine.stop()
            machine.start()
            await self._while(2.0)

    async def _freeze(self) -> None:
        machine = self._chance.choice(self._machines)
        machine.freeze()
        await self._while(1.5 * LONGEST_S)
        machine.thaw()

    async def _slow_disk(self) -> None:
        machine = self._chance.choice(self._machines)
        machine.slow_down(self._chance.uniform(0.05, 2.0))
        await self._while()
        machine.slow_down(None)

    async def _skew_clock(self) -> None:
        self._chance.choice(self._machines).clock_skew_ms = self._chance.randint(-5_000, 5_000)

    async def _fail_directory(self) -> None:
        machine = self._chance.choice(self._machines)
        machine.disk.failed.add(self._chance.choice(machine.disk.directories))
        await self._while()
        machine.kill()
        machine.disk.repair()
        await self._while(2.0)
        machine.start()

    async def _lose_role(self) -> None:
        """Have a broker stop a replica of which nobody else knows that it is stopped."""
        self._chance.choice(self._machines).lose_role(self._chance)

    # Ways

    async def _cut(self, ways: list[tuple[str, str]]) -> None:
        for way in ways:
            self._network.cut(*way)
        self._ways_changed(ways)
        await self._while()
        for way in ways:
            self._network.heal(*way)
        self._ways_changed(ways)

    def _ways_changed(self, ways: list[tuple[str, str]]) -> None:
        for machine in self._machines:
            if any(ZOOKEEPER in way and machine.name in way for way in ways):
                machine.ways_changed()

    async def _cut_brokers(self) -> None:
        one, other = (machine.name for machine in self._chance.sample(self._machines, 2))
        await self._cut([(one, other)] if self._chance.random() < 0.5 else [(one, other), (other, one)])

    async def _cut_controller(self) -> None:
        """Cut the controller and one of the other brokers off from each other."""
        try:
            controller = int(json.loads(self._ensemble.read(paths.CONTROLLER).data)["brokerid"])
        except NoNodeError:
            return
        name = self._machines[controller - 1].name
        other = self._chance.choice([machine.name for machine in self._machines if machine.number != controller])
        await self._cut([(name, other)] if self._chance.random() < 0.5 else [(name, other), (other, name)])

    async def _isolate(self) -> None:
        """Cut one broker off from the others; ZooKeeper hears of it, or not."""
        one = self._chance.choice(self._machines)
        others = [machine.name for machine in self._machines if machine is not one]
        if self._chance.random() < 0.4:
            others.append(ZOOKEEPER)
        if self._chance.random() < 0.4:
            others += self._clients
        await self._cut([way for other in others for way in ((one.name, other), (other, one.name))])

    async def _cut_zookeeper(self) -> None:
        name = self._chance.choice(self._machines).name
        both = [(name, ZOOKEEPER), (ZOOKEEPER, name)]
        await self._cut(self._chance.choice((both, both, both[:1], both[1:])))

    async def _cut_client(self) -> None:
        client = self._chance.choice(self._clients)
        machine = self._chance.choice(self._machines).name
        await self._cut(self._chance.choice(([(client, machine)], [(machine, client)])))

    async def _reset_connections(self) -> None:
        self._network.reset(self._chance.choice(self._machines).name)

    # ZooKeeper

    async def _shake_sessions(self) -> None:
        """Break the connections, as a change of ZooKeeper's leader does: of all brokers, or of one."""
        some = self._machines if self._chance.random() < 0.5 else [self._chance.choice(self._machines)]
        for machine in some:
            machine.break_session()

    async def _move_controller(self) -> None:
        """Delete the controller's node, as administrators do to have another one elected."""
        try:
            self._ensemble.carry_out([Delete(paths.CONTROLLER)], NOBODY)
        except MultiError:
            # There is none at present.
            return

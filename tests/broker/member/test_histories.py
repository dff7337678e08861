"""Random histories of three members: brokers stop and start, sessions expire, leaders change, and clients write.

The test is the controller, as Apache Kafka's: it elects live members of the ISR only. Whatever happens, a record that
was acknowledged by all in-sync replicas is in every log in the end, and the logs are the same.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.metadata.znodes import paths, topics
from broker.net.links.link_errors import LinkError
from broker.zookeeper.interface import BadVersionError
from tests.broker.member.simulated import Cluster, with_cluster
from tests.support.amount import mostly_exhaustive

STEPS = 60
LEAST_ALIVE = 2
ANSWER_S = 20.0


class History:
    """A random sequence of events in a cluster, with the answers that its clients got.

    Attributes:
        acknowledged: the values that were acknowledged.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._chance = cluster.chance
        self._stopped: set[int] = set()
        self._cut: set[int] = set()
        self._known: dict[int, int] = {}
        """The epochs of the brokers that the controller has told of everything."""
        self._sent = 0
        self.acknowledged: set[bytes] = set()

    async def run(self) -> None:
        await self._cluster.create("t", (1, 2, 3), {"min.insync.replicas": "2"})
        self._known = {number: each.epoch for number, each in (await self._cluster.alive()).items()}
        steps = [self._write] * 6 + [self._stop, self._start, self._cut_off, self._reconnect, self._move, self._wait]
        for _ in range(STEPS):
            await self._chance.choice(steps)()
            await self._control()

    async def settle(self) -> None:
        """Let everything work again, and wait until it does."""
        for number in sorted(self._stopped):
            await self._cluster.hosts[number].start()
        for number in sorted(self._cut):
            self._cluster.hosts[number].session.reconnect()
        self._stopped, self._cut = set(), set()
        while set(await self._cluster.alive()) != {1, 2, 3}:
            await asyncio.sleep(0.5)
        await self._control()
        controlling = asyncio.ensure_future(self._go_on_controlling())
        await self._cluster.until_isr("t", (1, 2, 3))
        await self._cluster.until_equal("t", 1, 2, 3)
        controlling.cancel()

    async def _go_on_controlling(self) -> None:
        """Notice what comes late: a broker whose session has just expired registers again."""
        while True:
            await asyncio.sleep(0.5)
            await self._control()

    # -- what happens

    async def _write(self) -> None:
        for _ in range(self._chance.randint(1, 5)):
            leader = self._cluster.assigned["t", 0].leader
            broker = leader if leader > 0 and self._chance.random() < 0.8 else self._chance.randint(1, 3)
            value = b"value %05d" % self._sent
            self._sent += 1
            acks = -1 if self._chance.random() < 0.7 else 1
            try:
                code = await asyncio.wait_for(self._cluster.produce(broker, "t", value, acks=acks), ANSWER_S)
            except (TimeoutError, LinkError):
                continue
            if code == 0 and acks == -1:
                self.acknowledged.add(value)

    async def _stop(self) -> None:
        running = sorted({1, 2, 3} - self._stopped - self._cut)
        if len(running) > LEAST_ALIVE:
            number = self._chance.choice(running)
            self._stopped.add(number)
            await self._cluster.hosts[number].stop()

    async def _start(self) -> None:
        if self._stopped:
            number = self._chance.choice(sorted(self._stopped))
            self._stopped.remove(number)
            await self._cluster.hosts[number].start()

    async def _cut_off(self) -> None:
        """Cut a broker off from ZooKeeper: it goes on without knowing that others take its place."""
        running = sorted({1, 2, 3} - self._stopped - self._cut)
        if len(running) > LEAST_ALIVE:
            number = self._chance.choice(running)
            self._cut.add(number)
            self._cluster.hosts[number].session.disconnect()

    async def _reconnect(self) -> None:
        if self._cut:
            number = self._chance.choice(sorted(self._cut))
            self._cut.remove(number)
            self._cluster.hosts[number].session.reconnect()

    async def _move(self) -> None:
        """Make another member of the ISR the leader, though the present one is alive."""
        alive = await self._cluster.alive()
        isr = (await self._cluster.state("t")).isr
        choices = [number for number in isr if number in alive and number not in self._stopped]
        if choices:
            await self._elect(self._chance.choice(choices), isr)

    async def _wait(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, 10))

    # -- the controller

    async def _elect(self, leader: int, isr: tuple[int, ...]) -> None:
        try:
            await self._cluster.elect("t", leader, isr)
        except (BadVersionError, LinkError, TimeoutError):
            # The leader changed the ISR meanwhile, or a broker does not answer: the next step tries again.
            return

    async def _control(self) -> None:
        """Do what a controller does about brokers that are gone or have come."""
        cluster = self._cluster
        alive = await cluster.alive()
        state = await cluster.state("t")
        if state.leader not in alive or set(state.isr) - alive.keys():
            left = tuple(number for number in state.isr if number in alive)
            if left:
                leader = state.leader if state.leader in left else left[0]
                await self._elect(leader, left)
        new = [number for number, each in alive.items() if self._known.get(number) != each.epoch]
        if new or self._known.keys() - alive.keys():
            node = await cluster.zookeeper.get(paths.partition_state("t", 0))
            assert node is not None
            found = topics.decode_state("t", 0, node.data, node.stat.version)
            cluster.assigned["t", 0] = topics.joined(topics.Assignment((1, 2, 3)), found)
            try:
                await cluster.tell_metadata(("t", 0))
                await cluster.tell_roles(("t", 0), to=new)
            except (LinkError, TimeoutError, KeyError):
                return
        self._known = {number: each.epoch for number, each in alive.items()}


@pytest.mark.parametrize("protocol", ["0.11.0", "2.6"])
@pytest.mark.parametrize("seed", mostly_exhaustive(range(20), 2))
def test_what_was_acknowledged_is_everywhere_in_the_end(tmp_path: Path, seed: int, protocol: str) -> None:
    async def work(cluster: Cluster) -> None:
        history = History(cluster)
        await history.run()
        await history.settle()
        log = cluster.log(1, "t")
        lost = [value for value in sorted(history.acknowledged) if value not in log]
        assert not lost
        assert len(history.acknowledged) > 5

    with_cluster(tmp_path, work, protocol, seed)

"""Members of groups in ZooKeeper on simulated time, and what they deliver.

A member carries out the steps of `kafkalog.client.connector` in a session of its own. It reads logs that are numbers
only. Whenever it delivers a record, ZooKeeper must say at that moment that it owns the partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.zookeeper import interface
from kafkalog.client.connector.assignment import STRATEGIES
from kafkalog.client.connector.connector import QUESTIONS
from kafkalog.client.connector.events import Event
from kafkalog.client.connector.lease import Lease
from kafkalog.client.connector.member import (
    CommitOffsets,
    ConsumerRebalanceFailedError,
    LoadOffsets,
    Member,
    Pause,
    StartFetching,
    StopFetching,
)
from kafkalog.client.connector.offset_stores import read_offsets, write_offsets
from kafkalog.client.connector.subscription import Subscription
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes, steps
from kafkalog.client.zookeeper.steps import Children, CurrentSession, Read, Steps, Write, WriteError
from kafkalog.zookeeper.values import Operation, SessionState
from tests.simulation.virtual_time import EPOCH_MS, VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

Tell = Callable[[Event], None]

GROUP = "group"
SESSION_S = 6.0
"""The time-out that ZooKeeper grants to sessions."""
ASKED_S = 10.0
"""The time-out that members ask for."""
COMMIT_S = 5.0
BACKOFF_S = 2.0
_ERRORS: dict[type[Exception], type[steps.ZooKeeperError]] = {
    interface.NodeExistsError: steps.NodeExistsError,
    interface.NoNodeError: steps.NoNodeError,
    interface.NotEmptyError: steps.NotEmptyError,
    interface.BadVersionError: steps.BadVersionError,
    interface.ConnectionLossError: steps.ConnectionLossError,
    interface.SessionExpiredError: steps.SessionExpiredError,
}


class World:
    """ZooKeeper, the logs, and what was delivered of them.

    Attributes:
        ends: the end of each partition's log.
        delivered: the offsets that were delivered of each partition.
    """

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.ensemble = SimulatedEnsemble(loop, self.chance)
        self.ensemble.longest_session = SESSION_S
        self.ends: dict[TopicPartition, int] = {}
        self.delivered: dict[TopicPartition, set[int]] = defaultdict(set)
        self.members: dict[str, SimulatedMember] = {}
        self._admin = SimulatedSession(self.ensemble, SESSION_S)

    async def prepare(self) -> None:
        await perform_all(self._admin, steps.ensure(f"{nodes.BROKER_IDS}/1"))
        await perform_all(self._admin, steps.ensure(nodes.TOPICS))

    async def make_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, or add partitions to it."""
        content = {"version": 1, "partitions": {str(number): [1] for number in range(partitions)}}
        await perform_all(self._admin, steps.put(nodes.topic(topic), json.dumps(content).encode()))
        for number in range(partitions):
            self.ends.setdefault(TopicPartition(topic, number), 0)

    def append(self, count: int) -> None:
        """Append records to every log."""
        for tp in self.ends:
            self.ends[tp] += count

    async def join(self, name: str, subscription: Subscription, strategy: str = "range") -> SimulatedMember:
        member = self.members[name] = SimulatedMember(self, name, subscription, strategy)
        member.start()
        return member

    def deliver(self, member: SimulatedMember, tp: TopicPartition, offset: int) -> None:
        """Note a record that a member hands out, which must own its partition."""
        path = nodes.owner(GROUP, tp)
        assert self.ensemble.exists(path), f"{member.name} delivers {tp}, which nobody owns"
        node = self.ensemble.read(path)
        owner = node.data.decode()
        assert owner.startswith(f"{member.name}-"), f"{member.name} delivers {tp}, which {owner} owns"
        assert node.stat.owner == member.session.session_id
        self.delivered[tp].add(offset)

    def owners(self) -> dict[TopicPartition, str]:
        """Return the owner of each partition, as ZooKeeper says."""
        found = {}
        for tp in self.ends:
            path = nodes.owner(GROUP, tp)
            if self.ensemble.exists(path):
                found[tp] = self.ensemble.read(path).data.decode()
        return found


class SimulatedMember:
    """A member; see the module.

    Attributes:
        failed: how many rebalances have failed after all their tries.
    """

    def __init__(self, world: World, name: str, subscription: Subscription, strategy: str) -> None:
        self.world = world
        self.name = name
        self.failed = 0
        self.session = SimulatedSession(world.ensemble, ASKED_S)
        self.session.listen(self._session_changed)
        self.member = Member(
            GROUP,
            name,
            subscription,
            assign=STRATEGIES[strategy],
            backoff=BACKOFF_S,
            session_timeout=lambda: self._lease.timeout,
            now_ms=lambda: EPOCH_MS,
        )
        self._lease = Lease(ASKED_S)
        self._lease.grant(self.session.session_timeout)
        self._is_killed = False
        self._pending: Event | None = None
        self._woken = asyncio.Event()
        self._positions: dict[TopicPartition, int] = {}
        self._stopped: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = self.world.loop
        self._tasks = [loop.create_task(work()) for work in (self._live, self._consume, self._commit_regularly)]

    def kill(self) -> None:
        """End without a word: the session expires."""
        self._is_killed = True
        self.session.disconnect()
        for task in self._tasks:
            task.cancel()

    def reconnect(self) -> None:
        """Reach ZooKeeper again."""
        if not self._is_killed:
            self.session.reconnect()

    async def leave(self) -> None:
        """Shut down."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stop()
        try:
            await self._commit(self._stopped)
            await self._carry_out(self.member.leave())
        except ClientError:
            pass
        await self.session.close()

    def check(self) -> None:
        """Raise what a task has failed with."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    # Inside

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._lease.end()
        self._lease.grant(self.session.session_timeout)
        if (event := Event.of_state(state)) is not None:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        self._pending = event.joined(self._pending)
        self._woken.set()

    async def _live(self) -> None:
        while True:
            try:
                await self._carry_out(self.member.join())
                break
            except ClientError:
                await asyncio.sleep(BACKOFF_S)
        self._tell(Event.REBALANCE)
        while True:
            if self._pending is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), SESSION_S / QUESTIONS)
            self._woken.clear()
            event, self._pending = self._pending, None
            try:
                await self._carry_out(self._touch() if event is None else event.steps(self.member))
            except steps.SessionExpiredError:
                self._tell(Event.EXPIRED)
            except ConsumerRebalanceFailedError:
                self.failed += 1
                self._tell(Event.REBALANCE)
                await asyncio.sleep(BACKOFF_S)
            except ClientError:
                if event is not None:
                    self._tell(max(event, Event.REBALANCE))
                    await asyncio.sleep(BACKOFF_S)

    def _touch(self) -> Steps[None]:
        yield Read(self.member.path)

    async def _consume(self) -> None:
        while True:
            await asyncio.sleep(self.world.chance.uniform(0.001, 0.2))
            for tp, position in list(self._positions.items()):
                if self._lease.holds(self.world.loop.time()) and position < self.world.ends[tp]:
                    self.world.deliver(self, tp, position)
                    self._positions[tp] = position + 1

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            with contextlib.suppress(ClientError):
                await self._commit(self._positions)

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._carry_out(write_offsets(GROUP, dict(offsets), only_while=self.member.path))

    async def _carry_out(self, work: Steps[Any]) -> Any:
        return await perform_all(self.session, work, self._others, self._lease.renew, self._tell)

    async def _others(self, effect: Any) -> Any:
        match effect:
            case StopFetching():
                self._stop()
                if effect.are_lost:
                    self._stopped = {}
            case CommitOffsets():
                await self._commit(self._stopped)
            case LoadOffsets():
                self._stopped = {}
                return await self._carry_out(read_offsets(GROUP, effect.partitions))
            case StartFetching():
                self._positions = {tp: effect.offsets.get(tp, 0) for tp in effect.owners}
            case Pause():
                await asyncio.sleep(effect.seconds)
        return None

    def _stop(self) -> None:
        self._stopped |= self._positions
        self._positions = {}
        self._lease.begin()


async def perform_all(
    session: SimulatedSession,
    work: Steps[Any],
    others: Any = None,
    answered: Any = None,
    tell: Tell = lambda event: None,
) -> Any:
    """Carry out steps in a simulated session, and return their result."""
    loop = asyncio.get_running_loop()
    outcome: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = work.send(outcome) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value
        outcome, error = None, None
        try:
            if isinstance(effect, Read | Children | Write | CurrentSession):
                sent_at = loop.time()
                outcome = await _perform(session, effect, tell)
                if answered is not None:
                    answered(sent_at)
            else:
                outcome = await others(effect)
        except (interface.ZooKeeperError, ClientError) as failure:
            error = _ERRORS[type(failure)](str(failure)) if isinstance(failure, interface.ZooKeeperError) else failure


async def _perform(session: SimulatedSession, effect: Read | Children | Write | CurrentSession, tell: Tell) -> Any:
    match effect:
        case Read():
            return await session.get(effect.path, _watch(effect.watch, tell))
        case Children():
            try:
                return await session.children(effect.path, _watch(effect.watch, tell))
            except interface.NoNodeError:
                await session.get(effect.path, _watch(effect.watch, tell))
                return None
        case Write():
            return await _write(session, effect.operations)
    return session.session_id


async def _write(session: SimulatedSession, operations: Sequence[Operation]) -> None:
    try:
        await session.multi(operations)
    except interface.MultiError as error:
        reason = _ERRORS[type(error.reason)](str(error.reason))
        raise WriteError(error.index, operations[error.index].path, reason) from None


def _watch(watch: Any, tell: Tell) -> Any:
    return None if watch is None else lambda event: tell(Event.of(watch))

"""Looks now and then whether this broker has the roles that ZooKeeper says it has, and sets strays aside.

A look reads the nodes of all topics, and the states of the partitions that are assigned to this broker, some at a time.
What differs (`role_check`) is looked at a second time after a pause, because a decision may just be on its way. What
differs then, too, and has not changed here meanwhile, is mended:

- The controller is asked for all roles of this broker, by the notice with which a broker tells of a failed log
  directory. Controllers of Apache Kafka know it as well, so no other request is needed.
- A role that the cluster does not assign is given up.
- A stray is renamed. It is removed after `kafkalog.log.stray.retention.ms`.

Nothing is done while ZooKeeper does not answer, or before the controller has told this broker its roles.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from broker.log.directories.strays import mark_stray
from broker.log.log import Log
from broker.member.control import Control
from broker.member.role_check import Finding, Held, Kind, Topic, compare, is_of_another
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode, decode_state, decode_topic
from broker.replica.isr_keeper import IsrDecision, IsrKeeper
from broker.replica.manager import ReplicaManager
from broker.replica.roles import Role
from broker.zookeeper.interface import Node, ZooKeeper, ZooKeeperError
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names
from kafkalog.storage.properties import Stray

logger = logging.getLogger(__name__)

SOON_S = 30.0
"""The longest pause before the first look of a broker's life, and before one that follows a change."""
LEAST_S = 0.1
"""The shortest pause between two looks."""
CONFIRM_S = 5.0
"""The pause before what differs is looked at again."""
AT_ONCE = 20
"""The number of nodes that are read at the same time."""
PAUSE_S = 0.2
"""The pause between such reads: a look costs little at any time, and takes ten seconds for a thousand partitions."""
NAMED = 5
"""The number of partitions that a message names."""

T = TypeVar("T")
PartitionKey = tuple[str, int]


class _Present(NamedTuple):
    """What is here of a partition, to see whether it has changed."""

    role: Role | None
    log: Log | None


class _Found(NamedTuple):
    """What differs of a partition."""

    finding: Finding
    present: _Present
    state: StateNode | None


class Reconciliation:
    """Keeps the roles of this broker as ZooKeeper has them. Used on the event loop's thread only.

    Args:
        broker_id: the id of this broker.
        broker_epoch: returns its epoch; negative while it is not registered.
        zookeeper: its session.
        control: carries out what the controller tells.
        replicas: its partitions.
        isr: keeps the ISRs of what it leads.
        interval_s: how often to look; negative for never.
        retention_ms: how long strays are kept; negative for ever.

    Attributes:
        differences: how many replicas differed from what ZooKeeper says.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        zookeeper: ZooKeeper,
        control: Control,
        replicas: ReplicaManager,
        isr: IsrKeeper,
        *,
        interval_s: float,
        retention_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._zookeeper = zookeeper
        self._control = control
        self._replicas = replicas
        self._isr = isr
        self._interval_s = interval_s
        self._retention_ms = retention_ms
        self._task: asyncio.Task[None] | None = None
        self.differences = 0

    def start(self) -> None:
        """Look from now on."""
        if self._interval_s >= 0:
            self._task = self._replicas.runtime.loop.create_task(self._run())

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Inside

    async def _run(self) -> None:
        interval = max(self._interval_s, LEAST_S)
        soon = min(interval, SOON_S)
        pause, again = soon, soon
        while True:
            # Brokers that were started together do not look at the same time.
            await asyncio.sleep(pause * self._replicas.runtime.random.uniform(0.9, 1.1))
            pause = soon
            if self._broker_epoch() < 0 or not self._control.has_metadata:
                continue
            try:
                if await self._look():
                    # Something that cannot be mended must not keep the controller busy.
                    pause, again = again, min(2 * again, interval)
                else:
                    pause, again = interval, soon
            except ZooKeeperError as error:
                logger.debug("the roles of this broker cannot be compared with ZooKeeper at present: %r", error)
            except Exception:
                logger.exception("the roles of this broker cannot be compared with ZooKeeper. Trying again")

    async def _look(self) -> bool:
        """Compare, and mend what differs; return whether something did."""
        epoch = self._broker_epoch()
        here = self._here()
        topics = {*await self._zookeeper.children(paths.TOPICS), *here}
        found, has_any = await self._compare(topics, here)
        if found:
            await asyncio.sleep(CONFIRM_S)
            again, has_any_now = await self._compare({topic for topic, _ in found}, self._here())
            confirmed = {
                key: each
                for key, each in again.items()
                if key in found and each.finding.kind is found[key].finding.kind
            }
            if self._broker_epoch() == epoch:
                await self._mend(confirmed, may_set_aside=self._control.has_roles or not (has_any or has_any_now))
        await self._remove_strays()
        return bool(found)

    def _here(self) -> dict[str, set[int]]:
        """Return the partitions of which this broker has a role or a log, by topic."""
        here: dict[str, set[int]] = {}
        for partition in self._replicas:
            here.setdefault(partition.topic, set()).add(partition.index)
        for log in self._replicas.logs:
            here.setdefault(log.topic, set()).add(log.partition)
        return here

    # Comparing

    async def _compare(
        self, topics: Collection[str], here: Mapping[str, Collection[int]]
    ) -> tuple[dict[PartitionKey, _Found], bool]:
        """Return what differs, and whether any partition is assigned to this broker.

        Topics that are being deleted are left out, and those whose nodes cannot be read.
        """
        deleting = set(await self._zookeeper.children(paths.DELETE_TOPICS))
        found: dict[PartitionKey, _Found] = {}
        has_any = False
        for some in _parts(sorted(set(topics) - deleting)):
            nodes = await self._read([paths.topic(topic) for topic in some])
            for topic, node in zip(some, nodes, strict=True):
                try:
                    known = None if node is None else Topic(decode_topic(topic, node.data), node.stat.created_ms)
                except ZnodeError as error:
                    logger.error("%s", error)
                    continue
                assigned = _assigned(known, self._broker_id)
                has_any = has_any or bool(assigned)
                for indexes in _parts(sorted({*here.get(topic, ()), *assigned})):
                    found |= await self._compare_some(topic, known, indexes, assigned)
        return found, has_any

    async def _compare_some(
        self, topic: str, known: Topic | None, indexes: list[int], assigned: Collection[int]
    ) -> dict[PartitionKey, _Found]:
        before = {index: self._present(topic, index) for index in indexes}
        read = [index for index in indexes if index in assigned]
        nodes = dict(zip(read, await self._read([paths.partition_state(topic, index) for index in read]), strict=True))
        since = await self._since(known, before.values())
        found: dict[PartitionKey, _Found] = {}
        for index in indexes:
            present = self._present(topic, index)
            if present != before[index]:
                # The controller has just told something.
                continue
            try:
                node = nodes.get(index)
                state = (
                    None if node is None or not node.data else decode_state(topic, index, node.data, node.stat.version)
                )
            except ZnodeError as error:
                logger.error("%s", error)
                continue
            finding = compare(self._broker_id, index, self._held(topic, index, since), known, state)
            if finding is not None:
                found[topic, index] = _Found(finding, present, state)
        return found

    async def _read(self, nodes: list[str]) -> list[Node | None]:
        if not nodes:
            return []
        found = await asyncio.gather(*map(self._zookeeper.get, nodes))
        await asyncio.sleep(PAUSE_S)
        return found

    async def _since(self, known: Topic | None, present: Iterable[_Present]) -> dict[Log, int]:
        """Return when logs of other topics of this name learnt their ids, in milliseconds since the epoch."""
        others = [each.log for each in present if each.log is not None and is_of_another(each.log.topic_id, known)]
        if not others:
            return {}

        def times() -> dict[Log, int]:
            return {log: os.stat(log.dir / names.PARTITION_METADATA).st_mtime_ns // 1_000_000 for log in others}

        try:
            return await self._replicas.runtime.workers.run(times)
        except OSError as error:
            logger.error("the age of replicas cannot be read: %s", error)
            return {}

    def _present(self, topic: str, index: int) -> _Present:
        partition = self._replicas.get(topic, index)
        return _Present(None if partition is None else partition.role, self._replicas.logs.get(topic, index))

    def _held(self, topic: str, index: int, since: Mapping[Log, int]) -> Held:
        partition, log = self._replicas.get(topic, index), self._replicas.logs.get(topic, index)
        role = None if partition is None else partition.role
        leading = None if partition is None else partition.leading
        return Held(
            leader_epoch=None if role is None else role.epoch,
            partition_epoch=0 if role is None else role.partition_epoch,
            is_leader=leading is not None,
            is_proposing=leading is not None and leading.proposed is not None,
            is_offline=self._replicas.is_offline(topic, index),
            has_log=log is not None and log.offline is None,
            topic_id=None if log is None else log.topic_id,
            log_since_ms=None if log is None else since.get(log),
        )

    # Mending

    async def _mend(self, found: Mapping[PartitionKey, _Found], *, may_set_aside: bool) -> None:
        self.differences += len(found)
        by_kind: dict[Kind, dict[PartitionKey, _Found]] = {kind: {} for kind in Kind}
        for key, each in found.items():
            by_kind[each.finding.kind][key] = each
        for key, each in by_kind[Kind.RESIGN].items():
            if self._present(*key) == each.present:
                logger.warning("%s-%d is given up: %s", *key, each.finding.what)
                self._replicas.stop_partition(*key)
        for key, each in by_kind[Kind.ADOPT].items():
            self._adopt(key, each)
        if asked := by_kind[Kind.ASK]:
            await self._ask(asked)
        if may_set_aside and (strays := by_kind[Kind.SET_ASIDE]):
            await self._set_aside(strays)

    def _adopt(self, key: PartitionKey, found: _Found) -> None:
        partition, state = self._replicas.get(*key), found.state
        if partition is not None and state is not None and self._present(*key) == found.present:
            logger.warning("%s-%d: %s", *key, found.finding.what)
            self._isr.adopt(partition, IsrDecision(state.leader, state.leader_epoch, state.partition_epoch, state.isr))

    async def _ask(self, found: Mapping[PartitionKey, _Found]) -> None:
        told = [f"{topic}-{index}: {each.finding.what}" for (topic, index), each in list(found.items())[:NAMED]]
        if len(found) > NAMED:
            told.append(f"and {len(found) - NAMED} more")
        reason = "; ".join(told)
        logger.warning("The controller is asked for the roles of this broker. %s", reason)
        data = notices.encode_log_dir_event(self._broker_id, reason)
        await self._zookeeper.create(paths.LOG_DIR_EVENT_PREFIX, data, is_sequential=True)

    async def _set_aside(self, found: Mapping[PartitionKey, _Found]) -> None:
        replicas, logs = self._replicas, self._replicas.logs
        now_ms = replicas.runtime.now_ms()
        for key, (finding, present, _) in found.items():
            log = present.log
            assert log is not None
            stray = Stray(now_ms, finding.what)
            try:
                await replicas.runtime.workers.run(partial(mark_stray, log.dir, stray, logs.ops))
                # The controller may have assigned it meanwhile.
                if self._present(*key) == present:
                    logs.set_aside(*key, finding.what, stray)
                    replicas.retry(*key)
            except (OSError, KafkaStorageError) as error:
                logger.error("%s-%d cannot be set aside: %s", *key, error)
        try:
            await replicas.runtime.workers.run(logs.sync_directories)
        except KafkaStorageError as error:
            logger.error("replicas that were set aside may come back after a power failure: %s", error)

    async def _remove_strays(self) -> None:
        replicas = self._replicas
        if len(replicas.logs.strays):
            now_ms = replicas.runtime.now_ms()
            await replicas.runtime.workers.run(lambda: replicas.logs.strays.remove_due(now_ms, self._retention_ms))


def _assigned(topic: Topic | None, broker_id: int) -> set[int]:
    """Return the partitions of a topic that a broker holds."""
    if topic is None:
        return set()
    return {index for index, assignment in topic.node.partitions.items() if broker_id in assignment.replicas}


def _parts(items: list[T]) -> list[list[T]]:
    """Return the items in parts that are read at the same time."""
    return [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]

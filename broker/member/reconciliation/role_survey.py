"""Reads what differs between the roles of this broker and what ZooKeeper says of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from broker.log.log import Log
from broker.member.reconciliation.role_check import Finding, Held, Topic, compare, is_of_another
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode, decode_state, decode_topic
from broker.replica.manager import ReplicaManager
from broker.replica.roles import Role
from broker.zookeeper.interface import Node, ZooKeeper
from kafkalog.storage import names

logger = logging.getLogger(__name__)

AT_ONCE = 20
"""The number of nodes that are read at the same time."""
PAUSE_S = 0.2
"""The pause between such reads: a look costs little at any time, and takes ten seconds for a thousand partitions."""

T = TypeVar("T")
PartitionKey = tuple[str, int]


class Present(NamedTuple):
    """The role and the log of a partition here, to see whether it has changed."""

    role: Role | None
    log: Log | None


class Difference(NamedTuple):
    """A difference that was found in a partition."""

    finding: Finding
    present: Present
    state: StateNode | None


class Survey(NamedTuple):
    """The result of a look at some topics."""

    found: dict[PartitionKey, Difference]
    has_any: bool
    """True if any partition is assigned to this broker."""


def present(replicas: ReplicaManager, topic: str, index: int) -> Present:
    """Return what is here of a partition now."""
    partition = replicas.get(topic, index)
    return Present(None if partition is None else partition.role, replicas.logs.get(topic, index))


class RoleSurvey:
    """Compares the roles of this broker with ZooKeeper, and changes nothing. Used on the event loop's thread only.

    Args:
        broker_id: the id of this broker.
        zookeeper: its session.
        replicas: its partitions.
    """

    def __init__(self, broker_id: int, zookeeper: ZooKeeper, replicas: ReplicaManager) -> None:
        self._broker_id = broker_id
        self._zookeeper = zookeeper
        self._replicas = replicas

    async def of_all(self) -> Survey:
        """Compare the partitions of all topics.

        Raises:
            ZooKeeperError: ZooKeeper does not answer.
        """
        here = self._here()
        return await self._compare({*await self._zookeeper.children(paths.TOPICS), *here}, here)

    async def of(self, topics: Collection[str]) -> Survey:
        """Compare the partitions of some topics.

        Raises:
            ZooKeeperError: ZooKeeper does not answer.
        """
        return await self._compare(topics, self._here())

    def _here(self) -> dict[str, set[int]]:
        """Return the partitions of which this broker has a role or a log, by topic."""
        here: dict[str, set[int]] = {}
        for partition in self._replicas:
            here.setdefault(partition.topic, set()).add(partition.index)
        for log in self._replicas.logs:
            here.setdefault(log.topic, set()).add(log.partition)
        return here

    async def _compare(self, topics: Collection[str], here: Mapping[str, Collection[int]]) -> Survey:
        """Leave out topics that are being deleted, and those whose nodes cannot be read."""
        deleting = set(await self._zookeeper.children(paths.DELETE_TOPICS))
        found: dict[PartitionKey, Difference] = {}
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
        return Survey(found, has_any)

    async def _compare_some(
        self, topic: str, known: Topic | None, indexes: list[int], assigned: Collection[int]
    ) -> dict[PartitionKey, Difference]:
        before = {index: present(self._replicas, topic, index) for index in indexes}
        read = [index for index in indexes if index in assigned]
        nodes = dict(zip(read, await self._read([paths.partition_state(topic, index) for index in read]), strict=True))
        since = await self._since(known, before.values())
        found: dict[PartitionKey, Difference] = {}
        for index in indexes:
            now = present(self._replicas, topic, index)
            if now != before[index]:
                # The controller has just changed it.
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
                found[topic, index] = Difference(finding, now, state)
        return found

    async def _read(self, nodes: list[str]) -> list[Node | None]:
        if not nodes:
            return []
        found = await asyncio.gather(*map(self._zookeeper.get, nodes))
        await asyncio.sleep(PAUSE_S)
        return found

    async def _since(self, known: Topic | None, before: Iterable[Present]) -> dict[Log, int]:
        """Return when logs of other topics of this name learnt their ids, in milliseconds since the epoch."""
        others = [each.log for each in before if each.log is not None and is_of_another(each.log.topic_id, known)]
        if not others:
            return {}

        def times() -> dict[Log, int]:
            return {log: os.stat(log.dir / names.PARTITION_METADATA).st_mtime_ns // 1_000_000 for log in others}

        try:
            return await self._replicas.runtime.workers.run(times)
        except OSError as error:
            logger.error("the age of replicas cannot be read: %s", error)
            return {}

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


def _assigned(topic: Topic | None, broker_id: int) -> set[int]:
    """Return the partitions of a topic that a broker holds."""
    if topic is None:
        return set()
    return {index for index, assignment in topic.node.partitions.items() if broker_id in assignment.replicas}


def _parts(items: list[T]) -> list[list[T]]:
    """Return the items in parts that are read at the same time."""
    return [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]

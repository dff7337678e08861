"""Wait for the controller of a cluster to carry out a creation or deletion of topics.

A topic exists for clients once this broker's metadata has a leader for each of its partitions. Partitions that are
added exist once each of them has one, whatever the others have. A request whose time is over before that is answered
REQUEST_TIMED_OUT, although the topic is made, as in Kafka (`DelayedCreatePartitions`, `DelayedDeleteTopics`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from broker.controller.decisions.planning import colliding
from broker.controller.topic_execution import Creation, DeletionListeners, Errors
from broker.metadata.cache import MetadataCache
from broker.metadata.model import NO_LEADER, ClusterState, TopicState, may_be_one_topic
from broker.metadata.operations import CreateTopic, DeleteTopic, Operation
from broker.metadata.store import MetadataStore
from broker.zookeeper.interface import ZooKeeperError
from kafkalog.protocol.errors import RequestTimedOutError

logger = logging.getLogger(__name__)

Holds = Callable[[], bool]


class TopicNodes(Protocol):
    """The nodes of topics in ZooKeeper."""

    def check_topic(self, topic: TopicState) -> object:
        """Refuse a new topic that ZooKeeper would not take."""

    async def missing_topics(self, names: Iterable[str]) -> set[str]:
        """Return those of the topics that ZooKeeper does not have.

        Raises:
            ZooKeeperError: ZooKeeper does not answer.
        """


class _Waiting:
    """A request that waits for what it has changed."""

    __slots__ = ("done", "missing")

    def __init__(self, missing: dict[str, Holds], done: asyncio.Future[None]) -> None:
        self.missing = missing
        self.done = done

    def look(self) -> None:
        self.missing = {name: holds for name, holds in self.missing.items() if not holds()}
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class ClusterExecution:
    """The execution of a member of a cluster; see the module.

    Args:
        store: the cluster's metadata.
        cache: the broker's view of it, which has subscribed to `store` before.
        listeners: called with the names of deleted topics, whichever broker deleted them.
        nodes: tell which topics ZooKeeper has, and would take.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        listeners: DeletionListeners,
        nodes: TopicNodes,
    ) -> None:
        self._cache = cache
        self._listeners = listeners
        self._nodes = nodes
        self._topics: Mapping[str, TopicState] = cache.image.topics
        self._waiting: dict[_Waiting, None] = {}
        store.subscribe(self._changed)

    @property
    def replica_limit(self) -> int | None:
        """See `TopicExecution.replica_limit`."""
        return None

    def check(self, topic: TopicState) -> None:
        """See `TopicExecution.check`."""
        self._nodes.check_topic(topic)

    async def gone(self, names: Sequence[str]) -> Mapping[str, TopicState]:
        """Return the topics of this broker's metadata that ZooKeeper does not have; see `TopicExecution.gone`.

        The controller tells only the brokers that are registered of a deletion, and none of them a second time.
        """
        topics = self._cache.image.topics
        known = {name: topics[name] for name in colliding(names, topics)}
        if not known:
            return {}
        try:
            missing = await self._nodes.missing_topics(known)
        except ZooKeeperError as error:
            logger.debug("what is known of topics cannot be compared with ZooKeeper at present: %r", error)
            return {}
        return {name: known[name] for name in missing}

    async def created(self, state: ClusterState, operations: Sequence[Creation], wait_ms: int) -> Errors:
        """Wait for leaders of all new partitions; see `TopicExecution.created`."""
        wanted: dict[str, Holds] = {}
        for operation in operations:
            if isinstance(operation, CreateTopic):
                name, new = operation.topic.name, range(len(operation.topic.partitions))
            else:
                name, new = operation.topic, range(operation.first, operation.first + len(operation.partitions))
            wanted[name] = partial(self._have_leaders, name, new)
        return await self._wait(wanted, wait_ms)

    async def deleted(self, before: ClusterState, operations: Sequence[DeleteTopic], wait_ms: int) -> Errors:
        """Wait until the topics are gone; see `TopicExecution.deleted`."""
        wanted: dict[str, Holds] = {each.name: partial(self._is_gone, each) for each in operations}
        return await self._wait(wanted, wait_ms)

    def _have_leaders(self, name: str, new: range) -> bool:
        topic = self._cache.topic(name)
        if topic is None or len(topic.partitions) < new.stop:
            return False
        return all(topic.partitions[index].leader != NO_LEADER for index in new)

    def _is_gone(self, operation: DeleteTopic) -> bool:
        topic = self._cache.topic(operation.name)
        return topic is None or not may_be_one_topic(topic.topic_id, operation.topic_id)

    async def _wait(self, wanted: dict[str, Holds], wait_ms: int) -> Errors:
        waiting = _Waiting(wanted, asyncio.get_running_loop().create_future())
        waiting.look()
        self._waiting[waiting] = None
        try:
            if not waiting.done.done() and wait_ms > 0:
                await asyncio.wait([waiting.done], timeout=wait_ms / 1000)
        finally:
            self._waiting.pop(waiting, None)
        return dict.fromkeys(waiting.missing, RequestTimedOutError())

    def _changed(self, state: ClusterState, operations: Sequence[Operation]) -> None:
        """Look at what requests wait for, and tell of topics that are gone: a listener of the store."""
        before, self._topics = self._topics, state.topics
        if before is state.topics:
            return
        for waiting in list(self._waiting):
            waiting.look()
        gone = frozenset(name for name, topic in before.items() if _is_another(topic, state.topics.get(name)))
        if gone:
            self._listeners.deleting(gone)
            self._listeners.deleted(gone)
            logger.info("%d topics were deleted: %s", len(gone), ", ".join(sorted(gone)[:10]))


def _is_another(before: TopicState, now: TopicState | None) -> bool:
    return now is not before and (now is None or not may_be_one_topic(now.topic_id, before.topic_id))

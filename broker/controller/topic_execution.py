"""The steps between the commit of a creation or deletion of topics and the answer to the request.

A lone broker is its own controller: it hosts what was created, and removes what was deleted. In a cluster the
controller does that; see `cluster_topics`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from broker.controller.channel import ControlChannel
from broker.controller.decisions.requests import requests_for
from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState, TopicState
from broker.metadata.operations import AddPartitions, CreateTopic, DeleteTopic, ForgetDeleted
from broker.metadata.store import MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

LOGGED_AT_ONCE = 250
"""The number of deleted topics that are logged before other requests get their turn."""

Creation: TypeAlias = CreateTopic | AddPartitions
Errors: TypeAlias = Mapping[str, KafkaError]
"""By topic; a topic without an error is absent."""


class DeletionListeners:
    """The listeners to deletions of topics.

    Attributes:
        on_deleting: functions that are called with the names of topics that are deleted together, as soon as that is
            committed. From then on topics of the same names can be created.
        on_deleted: functions that are called with the names of topics that were deleted together, once their
            partitions are not served.
    """

    def __init__(self) -> None:
        self.on_deleting: list[Callable[[frozenset[str]], None]] = []
        self.on_deleted: list[Callable[[frozenset[str]], None]] = []

    def deleting(self, names: frozenset[str]) -> None:
        """Tell that the deletion is committed."""
        for listener in self.on_deleting:
            listener(names)

    def deleted(self, names: frozenset[str]) -> None:
        """Tell that nothing of the topics is served."""
        for listener in self.on_deleted:
            listener(names)


class TopicExecution(Protocol):
    """Carries out the committed creation or deletion of topics."""

    @property
    def replica_limit(self) -> int | None:
        """The most replicas that topics of the broker's own have, whatever is configured; None for no limit."""

    def check(self, topic: TopicState) -> None:
        """Refuse a planned topic that cannot be stored.

        Raises:
            KafkaError: it cannot.
        """

    async def gone(self, names: Sequence[str]) -> Mapping[str, TopicState]:
        """Return the topics that do not exist any more, although this broker knows of them.

        Args:
            names: the names of topics that are to be created. Only topics that forbid that are looked at.
        """

    async def created(self, state: ClusterState, operations: Sequence[Creation], wait_ms: int) -> Errors:
        """Go on after a commit that led to `state`; return what went wrong, by topic.

        Args:
            state: the state after the commit.
            operations: what was committed.
            wait_ms: how long the request may wait.
        """

    async def deleted(self, before: ClusterState, operations: Sequence[DeleteTopic], wait_ms: int) -> Errors:
        """Go on after a commit that deleted topics of `before`; see `created`."""


class LoneExecution:
    """The execution of a lone broker.

    Args:
        store: the cluster's metadata.
        cache: the broker's view of it.
        replicas: the broker's partitions.
        channel: carries requests to the broker itself.
        listeners: called with the names of deleted topics.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        replicas: ReplicaManager,
        channel: ControlChannel,
        listeners: DeletionListeners,
    ) -> None:
        self._store = store
        self._cache = cache
        self._replicas = replicas
        self._channel = channel
        self._listeners = listeners

    @property
    def replica_limit(self) -> int | None:
        """See `TopicExecution.replica_limit`."""
        return len(self._cache.alive_ids())

    def check(self, topic: TopicState) -> None:
        """Take any topic."""

    async def gone(self, names: Sequence[str]) -> Mapping[str, TopicState]:
        """Return nothing: this broker itself deletes its topics."""
        return {}

    async def created(self, state: ClusterState, operations: Sequence[Creation], wait_ms: int) -> Errors:
        """Tell the brokers of their roles in new partitions, one topic at a time, so that others get their turn."""
        for operation in operations:
            name = operation.topic if isinstance(operation, AddPartitions) else operation.topic.name
            await self._host(name, state.topics[name].topic_id, state, operation)
        return {}

    async def _host(self, name: str, topic_id: uuid.UUID, state: ClusterState, operation: Creation) -> None:
        registered = self._cache.topic(name)
        if registered is None or registered.topic_id != topic_id:
            # It has been deleted since.
            return
        await self._channel.send(state.controller_epoch, requests_for(state, [operation]))

    async def deleted(self, before: ClusterState, operations: Sequence[DeleteTopic], wait_ms: int) -> Errors:
        """Take the logs of deleted topics out of service, in one request to each broker.

        If a topic of the same name is created meanwhile, its request is applied after this one.
        """
        names = frozenset(operation.name for operation in operations)
        self._listeners.deleting(names)
        answers = await self._channel.send(before.controller_epoch, requests_for(before, operations))
        self._listeners.deleted(names)
        for number, operation in enumerate(operations, 1):
            logger.info("deleted topic %s", operation.name)
            if number % LOGGED_AT_ONCE == 0:
                await asyncio.sleep(0)
        # An offline log directory may hold some of their logs. The next start with that directory removes them.
        failed = {
            topic for results in answers.values() for (topic, _), code in results.items() if code is not ErrorCode.NONE
        }
        removed = frozenset(operation.topic_id for operation in operations if operation.name not in failed)
        if removed and not self._replicas.logs.offline_dirs:
            await self._forget(removed)
        return {}

    async def _forget(self, removed: frozenset[uuid.UUID]) -> None:
        try:
            await self._store.commit(lambda state: [ForgetDeleted(removed)] if removed & state.deleting else [])
        except OSError as error:
            # The topics are deleted anyway, and the next start will forget them.
            logger.error("the registry cannot be stored: %s", error)

"""Creating, deleting and growing topics: requests of clients become changes of the registry, and these reach the logs.

The registry decides: a change is planned against the state that is known, decided against the newest one, committed,
and only then carried out on the logs. A crash between the two is repaired at start-up, which makes the logs that the
registry names and removes those that it says are being deleted.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence

from broker.controller.planning import NewTopic, Placement, TopicPlan, creations, growth
from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState, TopicState
from broker.metadata.operations import AddPartitions, CreateTopic, DeleteTopic, ForgetDeleted
from broker.metadata.store import Decision, MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    ThrottlingQuotaExceededError,
    TopicDeletionDisabledError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger("kafkalog.broker.controller")

PLANNED_AT_ONCE = 250
"""Topics that are checked before other requests get their turn."""
HOSTED_AT_ONCE = 8
"""Partitions whose logs are made before other requests get their turn."""

Admit = Callable[[int], None]
"""Asked before so many partitions are created or deleted; raises ThrottlingQuotaExceededError where it may not be."""


def _admit_all(partitions: int) -> None:
    """Admit everything: no quota holds for this."""


def _refusal(admit: Admit, partitions: int) -> KafkaError | None:
    try:
        admit(partitions)
    except ThrottlingQuotaExceededError as error:
        return error
    return None


class TopicController:
    """See the module.

    Attributes:
        on_deleted: called with the name of each topic that was deleted, once its partitions are served no more.
    """

    def __init__(self, store: MetadataStore, cache: MetadataCache, replicas: ReplicaManager) -> None:
        self._store = store
        self._cache = cache
        self._replicas = replicas
        self.on_deleted: list[Callable[[str], None]] = []

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers that replicas are assigned to."""
        return self._cache.alive_ids()

    def state(self, name: str) -> TopicState | None:
        """The topic as it is known here, or None."""
        return self._cache.topic(name)

    def _placement(self) -> Placement:
        config, image = self._replicas.config, self._cache.image
        return Placement(
            self._cache.alive_ids(),
            config["num.partitions"],
            config["default.replication.factor"],
            image.controller_epoch,
            self._replicas.runtime.random,
        )

    # -- creating

    async def create(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, admit: Admit = _admit_all
    ) -> dict[str, TopicState | KafkaError]:
        """Create topics in one commit; for each its state, or the error that kept it from being made.

        KafkaStorageError is the error of those that could not be stored.
        """
        placement = self._placement()
        plan = TopicPlan(self._cache.image, placement)
        results: dict[str, TopicState | KafkaError] = {}
        for number, topic in enumerate(topics, 1):
            try:
                made = plan.plan(topic)
                if not validate_only:
                    admit(len(made.partitions))
            except KafkaError as error:
                results[topic.name] = error
            else:
                results[topic.name] = made
                plan.add(made)
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if validate_only or not plan.topics:
            return results
        refused: dict[str, KafkaError] = {}

        def decide(state: ClusterState) -> Sequence[CreateTopic]:
            nonlocal refused
            operations, refused = creations(state, placement, plan.topics.values())
            return operations

        try:
            await self._commit(decide)
        except KafkaStorageError as error:
            return {name: error if isinstance(result, TopicState) else result for name, result in results.items()}
        results.update(refused)
        for result in results.values():
            if isinstance(result, TopicState):
                logger.info("created topic %s with %d partitions", result.name, len(result.partitions))
                await self._host(result)
        return results

    async def _host(self, topic: TopicState) -> None:
        """Host a topic's partitions, a few at a time: each makes files, and others are served in between."""
        count = len(topic.partitions)
        for first in range(0, count, HOSTED_AT_ONCE):
            registered = self._cache.topic(topic.name)
            if registered is None or registered.topic_id != topic.topic_id:
                return
            self._replicas.host(topic, range(first, min(first + HOSTED_AT_ONCE, count)))
            await asyncio.sleep(0)

    async def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
        admit: Admit = _admit_all,
    ) -> None:
        """Raise the number of partitions of ``name`` to ``count``.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
            InvalidPartitionsError: ``count`` is not above the present number.
            PolicyViolationError: more than MAX_PARTITIONS_PER_REQUEST would be made.
            InvalidReplicaAssignmentError: ``assignments`` does not fit.
            ThrottlingQuotaExceededError: ``admit`` says so.
            KafkaStorageError: it could not be stored.
        """
        placement = self._placement()

        def decide(state: ClusterState) -> Sequence[AddPartitions]:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
            return [growth(topic, count, assignments, placement)]

        planned = decide(self._cache.image)
        if validate_only:
            return
        admit(sum(len(operation.partitions) for operation in planned))
        state = await self._commit(decide)
        await self._host(state.topics[name])

    # -- deleting

    async def delete(self, names: Sequence[str], *, admit: Admit = _admit_all) -> dict[str, KafkaError | None]:
        """Delete topics in one commit; for each None, or the error: KafkaStorageError when it cannot be stored."""
        results: dict[str, KafkaError | None] = {}
        wanted: dict[str, uuid.UUID] = {}
        for number, name in enumerate(names, 1):
            topic = self._cache.topic(name)
            if not self._replicas.config["delete.topic.enable"]:
                results[name] = TopicDeletionDisabledError()
            elif topic is None:
                results[name] = UnknownTopicOrPartitionError()
            else:
                results[name] = _refusal(admit, len(topic.partitions))
                if results[name] is None:
                    wanted[name] = topic.topic_id
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        gone: list[TopicState] = []

        def decide(state: ClusterState) -> Sequence[DeleteTopic]:
            present = (state.topics.get(name) for name in wanted)
            gone[:] = [topic for topic in present if topic is not None and wanted[topic.name] == topic.topic_id]
            return [DeleteTopic(topic.name, topic.topic_id) for topic in gone]

        try:
            await self._commit(decide)
        except KafkaStorageError as error:
            return {name: result or error for name, result in results.items()}
        for name in wanted.keys() - {topic.name for topic in gone}:
            # Another request has deleted it meanwhile.
            results[name] = UnknownTopicOrPartitionError()
        await self._remove(gone)
        return results

    async def _remove(self, gone: Sequence[TopicState]) -> None:
        """Take the logs of topics that the registry no longer names out of service."""
        # All of them before anything else is awaited: a topic of the same name may be made from then on.
        complete = [self._remove_logs(topic) for topic in gone]
        for topic in gone:
            for listener in self.on_deleted:
                listener(topic.name)
        removed = frozenset(topic.topic_id for topic, done in zip(gone, complete, strict=True) if done)
        if removed and await self._settle_names():
            await self._forget(removed)

    def _remove_logs(self, topic: TopicState) -> bool:
        """Take the logs of one topic out of service; whether all went well."""
        logger.info("deleting topic %s", topic.name)
        # A log directory that is offline may hold some of its logs: the start that finds it again removes them.
        complete = not self._replicas.logs.offline_dirs
        for partition in self._replicas.drop(topic.name):
            try:
                self._replicas.logs.delete(partition.topic, partition.index, sync=False)
            except KafkaError as error:
                logger.error("a log of a deleted topic stays until the next start: %s", error)
                complete = False
        return complete

    async def _settle_names(self) -> bool:
        """Force the deleted logs' new names to the device, once for all of them; whether that went well."""
        try:
            await self._replicas.runtime.workers.run(self._replicas.logs.sync_directories)
        except KafkaStorageError as error:
            logger.error("deleted topics are looked for again at the next start: %s", error)
            return False
        return True

    async def _forget(self, removed: frozenset[uuid.UUID]) -> None:
        try:
            await self._commit(lambda state: [ForgetDeleted(removed)] if removed & state.deleting else [])
        except KafkaStorageError:
            # They are deleted all the same; the next start finds nothing left to do.
            return

    async def _commit(self, decide: Decision) -> ClusterState:
        try:
            return await self._store.commit(decide)
        except OSError as error:
            logger.error("the registry cannot be stored: %s", error)
            raise KafkaStorageError(f"The cluster's registry cannot be stored: {error}") from error

"""Creates and deletes topics and adds partitions: commits the change to the registry, then applies it to the logs.

A change is planned with the known state, decided with the newest one, committed, and only then applied to the logs.
After a crash in between, the next start creates the missing logs and removes those that are marked as being deleted.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.controller.channel import ControlChannel
from broker.controller.decisions.planning import NewTopic, Placement, TopicPlan, creations, deletions, growth
from broker.controller.decisions.requests import requests_for
from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState, TopicState
from broker.metadata.operations import AddPartitions, CreateTopic, DeleteTopic, ForgetDeleted
from broker.metadata.store import Decision, MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    ThrottlingQuotaExceededError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger(__name__)

PLANNED_AT_ONCE = 250
"""The number of topics that are checked, or logged, before other requests get their turn."""

FROZEN_AT_ONCE = 250
"""After so many new partitions, of some 50 objects each, all objects are exempted from full garbage collections."""

Admit = Callable[[int], None]
"""Called with the number of partitions to be created or deleted; raises ThrottlingQuotaExceededError to refuse."""


def _admit_all(partitions: int) -> None:
    """Admit everything, because no quota applies."""


def _refusal(admit: Admit, partitions: int) -> KafkaError | None:
    try:
        admit(partitions)
    except ThrottlingQuotaExceededError as error:
        return error
    return None


class TopicController:
    """See the module.

    Attributes:
        on_deleting: functions that are called with the names of topics that are deleted together, as soon as that is
            committed. From then on topics of the same names can be created.
        on_deleted: functions that are called with the names of topics that were deleted together, once their
            partitions are not served.
    """

    def __init__(
        self, store: MetadataStore, cache: MetadataCache, replicas: ReplicaManager, channel: ControlChannel
    ) -> None:
        self._store = store
        self._cache = cache
        self._replicas = replicas
        self._channel = channel
        self._unfrozen = 0
        """Partitions that were made since the garbage collector was last told."""
        self.on_deleting: list[Callable[[frozenset[str]], None]] = []
        self.on_deleted: list[Callable[[frozenset[str]], None]] = []

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that replicas can be assigned to."""
        return self._cache.alive_ids()

    def state(self, name: str) -> TopicState | None:
        """Return the topic as this broker knows it, or None."""
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
        """Create topics in one commit; return for each its state, or the error that prevented its creation.

        The error is KafkaStorageError if the commit could not be stored.
        """
        placement = self._placement()
        plan = TopicPlan(self._cache.image, placement)
        results: dict[str, TopicState | KafkaError] = {}
        for number, topic in enumerate(topics, 1):
            try:
                planned = plan.plan(topic)
                if not validate_only:
                    admit(len(planned.partitions))
            except KafkaError as error:
                results[topic.name] = error
            else:
                results[topic.name] = planned
                plan.add(planned)
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if validate_only or not plan.topics:
            return results
        refused: dict[str, KafkaError] = {}
        made: list[CreateTopic] = []

        def decide(state: ClusterState) -> Sequence[CreateTopic]:
            nonlocal refused, made
            made, refused = creations(state, placement, plan.topics.values())
            return made

        try:
            state = await self._commit(decide)
        except KafkaStorageError as error:
            return {name: error if isinstance(result, TopicState) else result for name, result in results.items()}
        results.update(refused)
        for operation in made:
            created = operation.topic
            logger.info("created topic %s with %d partitions", created.name, len(created.partitions))
            await self._host(created.name, created.topic_id, state, operation)
        return results

    async def _host(
        self, name: str, topic_id: uuid.UUID, state: ClusterState, operation: CreateTopic | AddPartitions
    ) -> None:
        """Tell the brokers of their roles in new partitions, unless their topic has been deleted since.

        Called for one topic at a time, so that other requests get their turn in between.
        """
        registered = self._cache.topic(name)
        if registered is None or registered.topic_id != topic_id:
            return
        requests = requests_for(state, [operation])
        await self._channel.send(state.controller_epoch, requests)
        own = requests.get(self._replicas.broker_id)
        if own is not None:
            self._unfrozen += len(own.leader_and_isr)
            if self._unfrozen >= FROZEN_AT_ONCE:
                self._unfrozen = 0
                self._replicas.runtime.collector.freeze()

    async def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
        admit: Admit = _admit_all,
    ) -> None:
        """Raise the number of partitions of `name` to `count`.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
            InvalidPartitionsError: `count` is not above the present number.
            PolicyViolationError: more than MAX_PARTITIONS_PER_REQUEST would be created.
            InvalidReplicaAssignmentError: `assignments` is invalid.
            ThrottlingQuotaExceededError: `admit` raised it.
            KafkaStorageError: the commit could not be stored.
        """
        placement = self._placement()

        def decide(state: ClusterState) -> Sequence[AddPartitions]:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
            return [growth(topic, count, assignments, placement)]

        (planned,) = decide(self._cache.image)
        if validate_only:
            return
        admit(len(planned.partitions))
        made: list[AddPartitions] = []

        def decide_anew(state: ClusterState) -> Sequence[AddPartitions]:
            made[:] = decide(state)
            return made

        state = await self._commit(decide_anew)
        await self._host(name, state.topics[name].topic_id, state, made[0])

    # -- deleting

    async def delete(
        self, names: Sequence[str], ids: Mapping[str, uuid.UUID] | None = None, *, admit: Admit = _admit_all
    ) -> dict[str, KafkaError | None]:
        """Delete topics in one commit; return None or the error for each (KafkaStorageError if it cannot be stored).

        Args:
            ids: the ids by which topics are meant. A topic that has another id was created anew: it stays.
        """
        ids = ids or {}
        results: dict[str, KafkaError | None] = {}
        wanted: dict[str, uuid.UUID] = {}
        for number, name in enumerate(names, 1):
            topic = self._cache.topic(name)
            if not self._replicas.config["delete.topic.enable"]:
                results[name] = TopicDeletionDisabledError()
            elif topic is None:
                results[name] = UnknownTopicOrPartitionError()
            elif ids.get(name, topic.topic_id) != topic.topic_id:
                results[name] = UnknownTopicIdError()
            else:
                results[name] = _refusal(admit, len(topic.partitions))
                if results[name] is None:
                    wanted[name] = topic.topic_id
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        before = self._cache.image
        gone: list[DeleteTopic] = []

        def decide(state: ClusterState) -> Sequence[DeleteTopic]:
            nonlocal before, gone
            before, gone = state, deletions(state, wanted)
            return gone

        try:
            await self._commit(decide)
        except KafkaStorageError as error:
            return {name: result or error for name, result in results.items()}
        for name in wanted.keys() - {operation.name for operation in gone}:
            # Another request has deleted the topic meanwhile.
            results[name] = UnknownTopicOrPartitionError()
        if gone:
            await self._remove(before, gone)
        return results

    async def _remove(self, before: ClusterState, gone: Sequence[DeleteTopic]) -> None:
        """Take the logs of deleted topics out of service, in one request to each broker.

        If a topic of the same name is created meanwhile, its request is applied after this one.
        """
        names = frozenset(operation.name for operation in gone)
        for listener in self.on_deleting:
            listener(names)
        answers = await self._channel.send(before.controller_epoch, requests_for(before, gone))
        for listener in self.on_deleted:
            listener(names)
        for number, operation in enumerate(gone, 1):
            logger.info("deleted topic %s", operation.name)
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        # An offline log directory may hold some of their logs. The next start with that directory removes them.
        failed = {
            topic for results in answers.values() for (topic, _), code in results.items() if code is not ErrorCode.NONE
        }
        removed = frozenset(operation.topic_id for operation in gone if operation.name not in failed)
        if removed and not self._replicas.logs.offline_dirs:
            await self._forget(removed)

    async def _forget(self, removed: frozenset[uuid.UUID]) -> None:
        try:
            await self._commit(lambda state: [ForgetDeleted(removed)] if removed & state.deleting else [])
        except KafkaStorageError:
            # The topics are deleted anyway, and the next start will forget them.
            return

    async def _commit(self, decide: Decision) -> ClusterState:
        try:
            return await self._store.commit(decide)
        except OSError as error:
            logger.error("the registry cannot be stored: %s", error)
            raise KafkaStorageError(f"The cluster's registry cannot be stored: {error}") from error

"""Creates and deletes topics and adds partitions: commits the change to the registry, then has it carried out.

A change is planned with the known state, decided with the newest one, committed, and only then carried out
(`topic_execution`). On a lone broker that means its logs: after a crash in between, the next start creates the missing
ones and removes those that are marked as being deleted. In a cluster the controller finds the change in ZooKeeper.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.controller.channel import ControlChannel
from broker.controller.decisions.planning import (
    NewTopic,
    Placement,
    TopicPlan,
    creations,
    deletions,
    growth,
    without,
)
from broker.controller.topic_execution import DeletionListeners, LoneExecution, TopicExecution
from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState, MetadataError, TopicState
from broker.metadata.operations import AddPartitions, CreateTopic, DeleteTopic
from broker.metadata.store import Decision, MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    ReassignmentInProgressError,
    ThrottlingQuotaExceededError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger(__name__)

PLANNED_AT_ONCE = 250
"""The number of topics that are checked, or logged, before other requests get their turn."""

WAIT_MS = 30_000
"""The time-out of changes of topics whose request names none, as Kafka's `request.timeout.ms`."""

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


def lone_topics(
    store: MetadataStore, cache: MetadataCache, replicas: ReplicaManager, channel: ControlChannel
) -> TopicController:
    """Make the topics of a lone broker, whose `channel` reaches itself."""
    listeners = DeletionListeners()
    execution = LoneExecution(store, cache, replicas, channel, listeners)
    return TopicController(store, cache, replicas, execution, listeners)


class TopicController:
    """Creates, extends and deletes topics.

    Args:
        store: gets the changes.
        cache: the broker's view of the cluster.
        replicas: has the configuration of the broker.
        execution: what follows a commit.
        listeners: called with the names of deleted topics.

    Attributes:
        on_deleting: functions that are called with the names of topics that are deleted together, as soon as that is
            committed. From then on topics of the same names can be created.
        on_deleted: functions that are called with the names of topics that were deleted together, once their
            partitions are not served.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        replicas: ReplicaManager,
        execution: TopicExecution,
        listeners: DeletionListeners,
    ) -> None:
        self._store = store
        self._cache = cache
        self._replicas = replicas
        self._execution = execution
        self.on_deleting = listeners.on_deleting
        self.on_deleted = listeners.on_deleted

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that replicas can be assigned to."""
        return self._cache.alive_ids()

    @property
    def replica_limit(self) -> int | None:
        """The most replicas that topics of the broker's own have, whatever is configured; None for no limit."""
        return self._execution.replica_limit

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
            {broker.broker_id: broker.rack for broker in self._cache.alive_brokers()},
        )

    # -- creating

    async def create(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        admit: Admit = _admit_all,
        wait_ms: int = WAIT_MS,
    ) -> dict[str, TopicState | KafkaError]:
        """Create topics in one commit; return for each its state, or the error that prevented its creation.

        The error is KafkaStorageError if the commit could not be stored, and RequestTimedOutError for a topic that is
        created but has no leaders after `wait_ms`.
        """
        wanted = list(topics)
        gone = await self._execution.gone([topic.name for topic in wanted])
        placement = self._placement()
        plan = TopicPlan(without(self._cache.image, gone), placement)
        results: dict[str, TopicState | KafkaError] = {}
        for number, topic in enumerate(wanted, 1):
            try:
                planned = plan.plan(topic)
                self._execution.check(planned)
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
            made, refused = creations(without(state, gone), placement, plan.topics.values())
            return made

        try:
            state = await self._commit(decide)
        except KafkaStorageError as error:
            return {name: error if isinstance(result, TopicState) else result for name, result in results.items()}
        results.update(refused)
        for operation in made:
            created = operation.topic
            logger.info("created topic %s with %d partitions", created.name, len(created.partitions))
        results.update(await self._execution.created(state, made, wait_ms))
        return results

    async def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
        admit: Admit = _admit_all,
        wait_ms: int = WAIT_MS,
    ) -> None:
        """Raise the number of partitions of `name` to `count`.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
            InvalidPartitionsError: `count` is not above the present number.
            PolicyViolationError: more than MAX_PARTITIONS_PER_REQUEST would be created.
            InvalidReplicaAssignmentError: `assignments` is invalid.
            ThrottlingQuotaExceededError: `admit` raised it.
            KafkaStorageError: the commit could not be stored.
            ReassignmentInProgressError: partitions of the topic are being moved.
            RequestTimedOutError: they are created, but have no leaders after `wait_ms`.
        """
        placement = self._placement()

        def decide(state: ClusterState) -> Sequence[AddPartitions]:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
            if any(partition.adding or partition.removing for partition in topic.partitions):
                raise ReassignmentInProgressError(f"A partition reassignment is in progress for the topic '{name}'.")
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
        errors = await self._execution.created(state, made, wait_ms)
        if name in errors:
            raise errors[name]

    # -- deleting

    async def delete(
        self,
        names: Sequence[str],
        ids: Mapping[str, uuid.UUID] | None = None,
        *,
        admit: Admit = _admit_all,
        wait_ms: int = WAIT_MS,
    ) -> dict[str, KafkaError | None]:
        """Delete topics in one commit; return None or the error for each.

        The error is KafkaStorageError if the commit cannot be stored, and RequestTimedOutError for a topic that is not
        gone after `wait_ms`.

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
            results.update(await self._execution.deleted(before, gone, wait_ms))
        return results

    async def _commit(self, decide: Decision) -> ClusterState:
        try:
            return await self._store.commit(decide)
        except (OSError, MetadataError) as error:
            logger.error("the registry cannot be stored: %s", error)
            raise KafkaStorageError(f"The cluster's registry cannot be stored: {error}") from error

"""Creating, deleting and growing topics.

The registry decides: a change is validated against the newest state, committed, and only then carried out on the logs.
A crash between the two is repaired at start-up, which makes the logs that the registry names and removes those that it
says are being deleted.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.config.topic import parse_topic_config
from broker.controller.assignment import assign_replicas, check_manual
from broker.metadata.model import ClusterState, PartitionState, TopicState, new_topic_id
from broker.metadata.store import Change, MetadataStore
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    PolicyViolationError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    TopicDeletionDisabledError,
    UnknownTopicOrPartitionError,
)
from kafkalog.storage.topics import MAX_TOPIC_NAME, has_legal_characters

logger = logging.getLogger("kafkalog.broker.controller")

UNSET = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default; ``assignments`` (partition to brokers) excludes both."""

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str | None] = field(default_factory=dict)


def check_topic_name(name: str) -> None:
    """Refuse names that would make no directory (KIP-4's rules).

    Raises:
        InvalidTopicError: the name is empty, ``.`` or ``..``, too long, or has other characters than a-zA-Z0-9._-
    """
    if not name:
        raise InvalidTopicError("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicError("Topic name is invalid: '.' or '..' is not allowed")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicError(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
        )
    if not has_legal_characters(name):
        raise InvalidTopicError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


MAX_PARTITIONS_PER_REQUEST = 10_000
"""New partitions that one request may ask for, as in Apache Kafka's own controller."""
HOSTED_AT_ONCE = 8
"""Partitions whose logs are made before other requests get their turn."""
CHECKED_AT_ONCE = 200
"""Topics of a request that are checked before other requests get their turn."""

Admit = Callable[[int], None]
"""Asked before so many partitions are created or deleted; raises ThrottlingQuotaExceededError where it may not be."""


def _admit_all(partitions: int) -> None:
    """No quota holds for whom this is done."""


def _refusal(admit: Admit, partitions: int) -> KafkaError | None:
    try:
        admit(partitions)
    except ThrottlingQuotaExceededError as error:
        return error
    return None


class TopicController:
    """See the module."""

    def __init__(self, store: MetadataStore, replicas: ReplicaManager, brokers: Sequence[int]) -> None:
        self._store = store
        self._replicas = replicas
        self._brokers = tuple(brokers)
        self.on_deleted: list[Callable[[str], None]] = []
        """Called with the name of each topic that was deleted, once its partitions are served no more."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers that replicas are assigned to."""
        return self._brokers

    def state(self, name: str) -> TopicState | None:
        """The topic as the registry has it, or None."""
        return self._store.state.topics.get(name)

    @property
    def _config(self) -> BrokerConfig:
        return self._replicas.config

    async def create(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, admit: Admit = _admit_all
    ) -> dict[str, TopicState | KafkaError]:
        """Create topics in one commit; for each its state, or the error that kept it from being made.

        KafkaStorageError is the error of those that could not be stored.
        """
        results: dict[str, TopicState | KafkaError] = {}
        wanted = list(topics)
        if len(wanted) > CHECKED_AT_ONCE:
            wanted = await self._sift(wanted, results)

        def change(state: ClusterState) -> ClusterState:
            planned = _Plan(state)
            room = MAX_PARTITIONS_PER_REQUEST
            for topic in wanted:
                try:
                    _check_room(max(topic.partitions, len(topic.assignments), 1), room)
                    made = self._plan(planned, topic)
                    _check_room(len(made.partitions), room)
                    if not validate_only:
                        admit(len(made.partitions))
                except KafkaError as error:
                    results[topic.name] = error
                    continue
                results[topic.name] = made
                room -= len(made.partitions)
                planned.add(made)
            return state if validate_only else planned.outcome()

        try:
            await self._commit(change)
        except KafkaStorageError as error:
            return {name: error if isinstance(result, TopicState) else result for name, result in results.items()}
        if not validate_only:
            for result in results.values():
                if isinstance(result, TopicState):
                    logger.info("created topic %s with %d partitions", result.name, len(result.partitions))
                    await self._host(result)
        return results

    async def _sift(self, topics: Iterable[NewTopic], results: dict[str, TopicState | KafkaError]) -> list[NewTopic]:
        """The topics that can be made as things are now, at most as many as there is room for; why others cannot."""
        planned = _Plan(self._store.state)
        room = MAX_PARTITIONS_PER_REQUEST
        found = []
        for number, topic in enumerate(topics, 1):
            try:
                _check_room(max(topic.partitions, len(topic.assignments), 1), room)
                partitions = len(self._plan(planned, topic).partitions)
                _check_room(partitions, room)
            except KafkaError as error:
                results[topic.name] = error
            else:
                room -= partitions
                found.append(topic)
            if number % CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def _host(self, topic: TopicState) -> None:
        """Host a topic's partitions, a few at a time: each makes files, and others are served in between."""
        count = len(topic.partitions)
        for first in range(0, count, HOSTED_AT_ONCE):
            registered = self._store.state.topics.get(topic.name)
            if registered is None or registered.topic_id != topic.topic_id:
                return
            self._replicas.host(topic, range(first, min(first + HOSTED_AT_ONCE, count)))
            await asyncio.sleep(0)

    async def delete(self, names: Sequence[str], *, admit: Admit = _admit_all) -> dict[str, KafkaError | None]:
        """Delete topics in one commit; for each None, or the error: KafkaStorageError when it cannot be stored."""
        results: dict[str, KafkaError | None] = {}
        gone: list[TopicState] = []
        known: list[str] = []
        for number, name in enumerate(names, 1):
            if name in self._store.state.topics:
                known.append(name)
            else:
                is_enabled = self._config["delete.topic.enable"]
                results[name] = UnknownTopicOrPartitionError() if is_enabled else TopicDeletionDisabledError()
            if number % CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)

        def change(state: ClusterState) -> ClusterState:
            for name in known:
                if not self._config["delete.topic.enable"]:
                    results[name] = TopicDeletionDisabledError()
                elif name not in state.topics:
                    results[name] = UnknownTopicOrPartitionError()
                else:
                    results[name] = _refusal(admit, len(state.topics[name].partitions))
                    if results[name] is None:
                        gone.append(state.topics[name])
            return state.without_topics(*(topic.name for topic in gone)) if gone else state

        try:
            await self._commit(change)
        except KafkaStorageError as error:
            return {name: result or error for name, result in results.items()}
        # All of them before anything else is awaited: a topic of the same name may be made from then on.
        complete = [self._remove_logs(topic) for topic in gone]
        for topic in gone:
            for listener in self.on_deleted:
                listener(topic.name)
        removed = {topic.topic_id for topic, done in zip(gone, complete, strict=True) if done}
        if removed and await self._settle_names():
            await self._forget(removed)
        return results

    def _remove_logs(self, topic: TopicState) -> bool:
        """Take the logs of a topic that the registry no longer names out of service; whether all went well."""
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

    async def _forget(self, removed: set[uuid.UUID]) -> None:
        try:
            await self._commit(lambda state: replace(state, deleting=state.deleting - removed))
        except KafkaStorageError:
            # They are deleted all the same; the next start finds nothing left to do.
            return

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
        """

        def change(state: ClusterState) -> ClusterState:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
            new = self._plan_growth(topic, count, assignments)
            if not validate_only:
                admit(count - len(topic.partitions))
            return state if validate_only else state.with_topics(new)

        state = await self._commit(change)
        if not validate_only:
            await self._host(state.topics[name])

    async def _commit(self, change: Change) -> ClusterState:
        try:
            return await self._store.commit(change)
        except OSError as error:
            logger.error("the registry cannot be stored: %s", error)
            raise KafkaStorageError(f"The cluster's registry cannot be stored: {error}") from error

    def _plan(self, planned: _Plan, topic: NewTopic) -> TopicState:
        check_topic_name(topic.name)
        if topic.name in planned.topics:
            raise TopicAlreadyExistsError(f"Topic '{topic.name}' already exists.")
        collision = planned.collision(topic.name)
        if collision is not None:
            raise InvalidTopicError(f"Topic '{topic.name}' collides with existing topic: {collision}")
        if topic.assignments and (topic.partitions != UNSET or topic.replication_factor != UNSET):
            raise InvalidRequestError(
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            )
        try:
            parse_topic_config(topic.config)
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from error
        if topic.assignments:
            replicas = check_manual(dict(topic.assignments), self._brokers)
        else:
            replicas = assign_replicas(
                self._brokers,
                self._config["num.partitions"] if topic.partitions == UNSET else topic.partitions,
                self._config["default.replication.factor"]
                if topic.replication_factor == UNSET
                else topic.replication_factor,
                self._replicas.runtime.random.randrange(len(self._brokers)),
            )
        config = {name: value for name, value in topic.config.items() if value is not None}
        return TopicState(topic.name, new_topic_id(planned.ids), tuple(map(_led_by_first, replicas)), config)

    def _plan_growth(self, topic: TopicState, count: int, assignments: Sequence[Sequence[int]] | None) -> TopicState:
        present = len(topic.partitions)
        if count < present:
            raise InvalidPartitionsError(
                f"Topic currently has {present} partitions, which is higher than the requested {count}."
            )
        if count == present:
            raise InvalidPartitionsError(f"Topic already has {present} partitions.")
        added = count - present
        _check_room(added, MAX_PARTITIONS_PER_REQUEST)
        if assignments is not None:
            if len(assignments) != added:
                raise InvalidReplicaAssignmentError(
                    f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
                )
            replicas = check_manual(dict(enumerate(assignments)), self._brokers)
        else:
            factor = len(topic.partitions[0].replicas)
            replicas = assign_replicas(self._brokers, added, factor, topic.partitions[0].leader, present)
        return replace(topic, partitions=topic.partitions + tuple(map(_led_by_first, replicas)))


def _check_room(wanted: int, room: int) -> None:
    if wanted > room:
        raise PolicyViolationError(
            f"Unable to perform excessively large batch operation: a request may ask for at most "
            f"{MAX_PARTITIONS_PER_REQUEST} new partitions."
        )


def _led_by_first(replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(replicas, replicas, replicas[0])


class _Plan:
    """The registry's topics while a request of up to 10,000 new ones adds to them."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.topics = dict(state.topics)
        self.ids = {topic.topic_id for topic in state.topics.values()} | state.deleting
        self._folded: dict[str, str] | None = None

    def collision(self, name: str) -> str | None:
        """A topic whose metric names would be the same: ``.`` and ``_`` are one character there."""
        if "." not in name and "_" not in name:
            return None
        if self._folded is None:
            self._folded = {other.replace(".", "_"): other for other in self.topics}
        return self._folded.get(name.replace(".", "_"))

    def add(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        self.ids.add(topic.topic_id)
        if self._folded is not None:
            self._folded[topic.name.replace(".", "_")] = topic.name

    def outcome(self) -> ClusterState:
        """The registry with what was added: itself when that is nothing."""
        if len(self.topics) == len(self._state.topics):
            return self._state
        return replace(self._state, topics=self.topics)

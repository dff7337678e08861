"""Carries out a controller's decisions on this broker's partitions and logs.

A controller tells each broker by LeaderAndIsr which partitions it holds and in which role, and by StopReplica which
ones it no longer holds. A lone broker's controller calls the same two methods directly. They do not change the
cluster's metadata, and return a result for each partition:

    applier = ReplicaApplier(replicas, topic_config=lambda name: store.state.topics[name].config)
    results = await applier.apply_leader_and_isr(controller_epoch, [LeaderAndIsr(...), ...])
    results = await applier.stop_replica(controller_epoch, [StopReplica(...), ...])

Requests are carried out one after another, in the order of arrival. The partitions of a request are processed a few at
a time, because each creates files, and other connections are served in between.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from broker.metadata.model import NO_TOPIC_ID, PartitionState
from broker.replica.manager import ReplicaManager, TopicConfig
from kafkalog.protocol.errors import ErrorCode, KafkaError, KafkaStorageError, StaleControllerEpochError

logger = logging.getLogger(__name__)

APPLIED_AT_ONCE = 8
"""Partitions that are processed before other requests get their turn."""
FROZEN_AT_ONCE = 250
"""After so many new partitions, of some 50 objects each, all objects are exempted from full garbage collections. One
request may create thousands of them.
"""
NO_LEADER_EPOCH = -1
"""The leader epoch of a StopReplica from a controller that names none. It applies whatever the epoch here is."""
DELETION_EPOCH = -2
"""The leader epoch of a StopReplica for a deleted topic. It applies whatever the epoch here is."""

PartitionKey = tuple[str, int]
"""Topic and partition."""
Results = dict[PartitionKey, ErrorCode]
Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The state of one partition, as the controller decided it."""

    topic: str
    topic_id: uuid.UUID
    """The topic's id; NO_TOPIC_ID from a controller that does not know it."""
    partition: int
    state: PartitionState
    is_new: bool = False
    """True if the partition has never been on this broker. If it may have been, no log is created while a log directory
    that may hold it is offline: the empty log could be elected leader, and the records in the other one would be lost.
    """

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class StopReplica:
    """One partition that this broker has to stop serving."""

    topic: str
    partition: int
    leader_epoch: int = NO_LEADER_EPOCH
    """The leader epoch of the decision; NO_LEADER_EPOCH and DELETION_EPOCH apply whatever the epoch here is."""
    delete: bool = False
    """True if its log is deleted too."""

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition


class ReplicaApplier:
    """Carries out the requests of a controller. Used on the event loop's thread only.

    Args:
        topic_config: returns the overrides of a topic's configuration, given its name; None if they were never read.
    """

    def __init__(self, replicas: ReplicaManager, topic_config: Callable[[str], Mapping[str, str] | None]) -> None:
        self._replicas = replicas
        self._topic_config = topic_config
        self._controller_epoch = 0
        self._in_turn = asyncio.Lock()
        self._processed = 0
        self._unfrozen = 0
        """Partitions that were made since the garbage collector was last told."""
        self._out_of_reach: set[PartitionKey] = set()
        """Partitions whose role has ended, and whose logs may lie in a log directory that is offline."""

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch seen so far."""
        return self._controller_epoch

    async def apply_leader_and_isr(
        self, controller_epoch: int, partitions: Iterable[LeaderAndIsr], check: Check = lambda: None
    ) -> Results:
        """Take the roles that the controller gives this broker, creating logs that are missing.

        Args:
            check: raises where the request is not to be carried out any more. It is called after every wait.

        Returns:
            For each partition NONE or its error: STALE_CONTROLLER_EPOCH if the leader epoch is not newer than the one
            here, which is normal after a change of controller; UNKNOWN_TOPIC_OR_PARTITION if this broker is not one
            of the replicas; INCONSISTENT_TOPIC_ID if the log belongs to another topic of this name;
            KAFKA_STORAGE_ERROR if the log cannot be used; UNKNOWN_SERVER_ERROR for what nobody has foreseen.

        Raises:
            StaleControllerEpochError: the request comes from a replaced controller. Nothing is changed.
        """
        async with self._in_turn:
            check()
            self.note_controller(controller_epoch)
            results: Results = {}
            configs: dict[str, TopicConfig] = {}
            for wanted in partitions:
                results[wanted.key] = code = self._apply(wanted, configs)
                if wanted.is_new and code is ErrorCode.NONE:
                    self._note_new()
                if await self._let_others():
                    check()
                    # A configuration that changed meanwhile was put in force for the partitions that were hosted then.
                    configs.clear()
            return results

    async def stop_replica(
        self, controller_epoch: int, partitions: Iterable[StopReplica], check: Check = lambda: None
    ) -> Results:
        """Stop serving partitions, and delete the logs of those marked `delete`.

        Requests that wait for these partitions are answered with NOT_LEADER_OR_FOLLOWER. The method returns when the
        deletions are durable: a power failure does not bring the logs back.

        Args:
            check: see `apply_leader_and_isr`.

        Returns:
            For each partition NONE, also if it is not hosted here, or its error: FENCED_LEADER_EPOCH if the decision is
            older than the role here; KAFKA_STORAGE_ERROR if the log cannot be deleted.

        Raises:
            StaleControllerEpochError: the request comes from a replaced controller. Nothing is changed.
        """
        async with self._in_turn:
            check()
            self.note_controller(controller_epoch)
            results: Results = {}
            deleted: list[PartitionKey] = []
            for wanted in partitions:
                results[wanted.key] = code = self._stop(wanted)
                if wanted.delete and code is ErrorCode.NONE:
                    deleted.append(wanted.key)
                if await self._let_others():
                    check()
            self._replicas.forget_topics({topic for topic, _ in results})
            if deleted:
                try:
                    await self._replicas.runtime.workers.run(self._replicas.logs.sync_directories)
                except KafkaStorageError as error:
                    logger.error("deleted logs may come back after a power failure: %s", error)
                    results.update(dict.fromkeys(deleted, ErrorCode.KAFKA_STORAGE_ERROR))
            return results

    async def _let_others(self) -> bool:
        """Let other requests have their turn after some partitions, of one request or more; return whether it did."""
        self._processed += 1
        if self._processed % APPLIED_AT_ONCE:
            return False
        await asyncio.sleep(0)
        return True

    def _note_new(self) -> None:
        self._unfrozen += 1
        if self._unfrozen >= FROZEN_AT_ONCE:
            self._unfrozen = 0
            self._replicas.runtime.collector.freeze()

    def note_controller(self, controller_epoch: int) -> None:
        """Note the epoch of a controller that has sent something.

        Raises:
            StaleControllerEpochError: the controller was replaced.
        """
        if controller_epoch < self._controller_epoch:
            raise StaleControllerEpochError(
                f"controller epoch {controller_epoch} is older than the epoch {self._controller_epoch} seen here"
            )
        self._controller_epoch = controller_epoch

    def _apply(self, wanted: LeaderAndIsr, configs: dict[str, TopicConfig]) -> ErrorCode:
        replicas = self._replicas
        if replicas.broker_id not in wanted.state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = replicas.get(*wanted.key)
        topic_id = None if wanted.topic_id == NO_TOPIC_ID else wanted.topic_id
        try:
            if partition is not None:
                replicas.require(*wanted.key)
                # Also where the role stays: each new controller tells all roles.
                partition.is_told_by_id = topic_id is not None
                if topic_id is not None and partition.log.topic_id not in (None, topic_id):
                    return ErrorCode.INCONSISTENT_TOPIC_ID
                if wanted.state.leader_epoch < partition.leader_epoch:
                    return ErrorCode.STALE_CONTROLLER_EPOCH
                is_named_now = topic_id is not None and partition.log.topic_id is None
                if topic_id is not None and is_named_now:
                    # A controller of 2.8 gives ids to topics that had none, by roles that do not change (KAFKA-13132).
                    partition.log.assign_topic_id(topic_id)
                if wanted.state.leader_epoch == partition.leader_epoch:
                    return ErrorCode.NONE if is_named_now else ErrorCode.STALE_CONTROLLER_EPOCH
            config = configs.get(wanted.topic)
            if config is None:
                config = configs[wanted.topic] = self._config(wanted.topic)
            replicas.host_partition(*wanted.key, topic_id, wanted.state, config, is_new=wanted.is_new)
            self._out_of_reach.discard(wanted.key)
        except KafkaError as error:
            logger.error("the role of %s-%d cannot be taken: %s", *wanted.key, error)
            return error.code
        except Exception:
            logger.exception("the role of %s-%d cannot be taken", *wanted.key)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _config(self, topic: str) -> TopicConfig:
        overrides = self._topic_config(topic)
        if overrides is None:
            # The broker's defaults do not count as what was read last.
            return self._replicas.topic_config({})
        return self._replicas.topic_config(overrides, topic)

    def _stop(self, wanted: StopReplica) -> ErrorCode:
        replicas = self._replicas
        partition = replicas.get(*wanted.key)
        is_fenced = wanted.leader_epoch not in (NO_LEADER_EPOCH, DELETION_EPOCH)
        if partition is not None and is_fenced and wanted.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        is_offline = replicas.is_offline(*wanted.key)
        if is_offline and replicas.logs.offline_dirs and replicas.logs.get(*wanted.key) is None:
            # A controller that deletes a topic ends the roles first. The deletion would find no log here.
            self._out_of_reach.add(wanted.key)
        try:
            replicas.stop_partition(*wanted.key)
            if not wanted.delete:
                return ErrorCode.NONE
            if is_offline or wanted.key in self._out_of_reach:
                # The log directory may come back with the log in it; the start that finds it then has to delete it.
                return ErrorCode.KAFKA_STORAGE_ERROR
            replicas.logs.delete(*wanted.key, sync=False)
        except KafkaError as error:
            logger.error("the log of %s-%d cannot be deleted: %s", *wanted.key, error)
            return error.code
        except Exception:
            logger.exception("%s-%d cannot be stopped", *wanted.key)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

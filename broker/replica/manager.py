"""The partitions of this broker: hosts them, appends to them, and wakes the operations that wait for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from broker.config.server import BrokerConfig
from broker.config.stored_topic import read_topic_config
from broker.counters import BrokerCounters
from broker.log.alter_dirs.mover import LogMover
from broker.log.append.append_info import AppendInfo
from broker.log.append.legacy.message_sets import PreparedSet
from broker.log.append.mirrored import MirroredRecords
from broker.log.append.validation import CheckedBatch, Origin
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.metadata.model import PartitionState, TopicState
from broker.quota.measures import Window
from broker.replica.acknowledging.appended import Appended
from broker.replica.acknowledging.flushes import Flushes
from broker.replica.config_faults import ConfigFaults
from broker.replica.follower_calls import FollowerCalls
from broker.replica.hosting.retries import HostingRetries
from broker.replica.isr.rules import UNKNOWN_BROKER_EPOCH
from broker.replica.partition import NO_LEADER_EPOCH, Partition
from broker.replica.purgatory import Purgatory
from broker.replica.resting import RestingPartitions
from broker.replica.throttles import ReplicationQuota, Throttled
from broker.runtime import Runtime
from broker.system.workers import WorkerShare
from kafkalog.protocol.errors import (
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger(__name__)

ANY_MINIMUM = (1 << 31) - 1
"""A number of bytes that reaches the minimum of every waiting fetch, so that it checks again."""


class TopicConfig(NamedTuple):
    """The parts of a topic's configuration that its partitions use."""

    log: LogConfig
    min_insync: int
    throttled: Throttled = Throttled()


class _Unhosted(NamedTuple):
    """The arguments of a `ReplicaManager.host_partition` that failed, for the next attempt."""

    topic_id: UUID | None
    assigned: PartitionState | None
    """None after the role has ended."""
    config: TopicConfig
    is_new: bool


class ReplicaManager:
    """Hosts the partitions of this broker. Used on the event loop's thread only.

    Attributes:
        on_role_changed: called with a partition after its role or its leader epoch has changed, after this broker has
            stopped hosting it, or after its log directory has failed. Coordinators then load or forget its state.
        on_reconfigured: called after the broker's configuration has changed.
        on_follower_fetched: called with a partition led here and a follower that has fetched from it.
        alive: the live brokers, which may be in an ISR; None where the cluster's members are not known.
        is_elsewhere: returns whether the cluster has a partition that is not hosted here.
        may_append: returns whether a partition that is led here may be appended to: not when others may lead by now.
        resting: the partitions that fetch sessions leave out because nothing has changed.
        leader_quota, follower_quota: the quotas that all throttled replicas share.
        flushes: the flushes of partitions' logs whose records wait to be acknowledged.
        config_faults: the stored configurations of topics, as far as they can be read.
        retries: the retries of partitions that could not be hosted.
        moves: the moves of logs between the log directories.
        conversions: the workers that convert records to another message format, which takes long.
    """

    def __init__(self, runtime: Runtime, broker_id: int, config: BrokerConfig, logs: LogManager) -> None:
        self.broker_id = broker_id
        self.config = config
        self.logs = logs
        self.produce_purgatory = Purgatory(runtime.loop)
        self.fetch_purgatory = Purgatory(runtime.loop)
        self.deletion_purgatory = Purgatory(runtime.loop)
        self.resting = RestingPartitions()
        self._calls = FollowerCalls(runtime.loop, self.fetch_purgatory)
        self.counters = BrokerCounters()
        self.config_faults = ConfigFaults()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], _Unhosted] = {}
        self._indexes: dict[str, set[int]] = {}
        """The partitions in `_partitions` and `_offline` by topic; a broker may have very many."""
        self.retries = HostingRetries(runtime.loop, self._host_again)
        self.runtime = runtime
        self.flushes = Flushes(runtime.workers, lambda partition: self.produce_purgatory.notify(partition.key))
        self.conversions = WorkerShare(runtime.workers, max(1, config["background.threads"] // 2))
        self.moves = LogMover(
            logs,
            runtime.loop,
            runtime.workers,
            config["num.replica.alter.log.dirs.threads"] or len(logs.log_dirs),
            lambda: float(self.config["replica.alter.log.dirs.io.max.bytes.per.second"]),
        )
        window = Window(config["replication.quota.window.num"], config["replication.quota.window.size.seconds"] * 1000)
        self.leader_quota = self._quota("leader.replication.throttled.rate", window)
        self.follower_quota = self._quota("follower.replication.throttled.rate", window)
        self.on_role_changed: list[Callable[[Partition], None]] = []
        self.on_reconfigured: list[Callable[[], None]] = []
        self.on_follower_fetched: Callable[[Partition, int], None] = lambda partition, replica: None
        self.alive: frozenset[int] | None = None
        self.is_elsewhere: Callable[[str, int], bool] = lambda topic, index: False
        self.may_append: Callable[[], bool] = lambda: True

    def _quota(self, key: str, window: Window) -> ReplicationQuota:
        return ReplicationQuota(lambda: float(self.config[key]), window, self.runtime.monotonic_ms)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def partitions(self) -> list[Partition]:
        """Return the partitions that are hosted now. Any thread may call this."""
        return list(self._partitions.values())

    def offline_count(self) -> int:
        """Return the number of partitions whose log cannot be used. Any thread may call this."""
        return len(self._offline) + sum(partition.log.offline is not None for partition in self.partitions())

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def require(self, topic: str, index: int) -> Partition:
        """Return a partition that is hosted here and whose log can be used.

        Raises:
            KafkaStorageError: its log directory has failed.
            NotLeaderOrFollowerError: it is not hosted here, but elsewhere in the cluster.
            UnknownTopicOrPartitionError: there is no such partition.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._offline:
                self.retries.asked((topic, index))
                raise KafkaStorageError
            # The first makes clients look where the partition is now.
            raise NotLeaderOrFollowerError if self.is_elsewhere(topic, index) else UnknownTopicOrPartitionError
        if partition.log.offline is not None:
            raise KafkaStorageError(f"{topic}-{index} is offline: {partition.log.offline}")
        return partition

    def is_online(self, topic: str, index: int) -> bool:
        """Return whether the partition is hosted here in a log directory that has not failed."""
        partition = self._partitions.get((topic, index))
        return partition is not None and partition.log.offline is None

    def is_offline(self, topic: str, index: int) -> bool:
        """Return whether the partition is assigned to this broker, but its log cannot be used."""
        return (topic, index) in self._offline or (
            (topic, index) in self._partitions and not self.is_online(topic, index)
        )

    def partitions_of(self, topic: str) -> list[Partition]:
        found = (self._partitions.get((topic, index)) for index in sorted(self._indexes.get(topic, ())))
        return [partition for partition in found if partition is not None]

    def host_partition(
        self,
        topic: str,
        index: int,
        topic_id: UUID | None,
        assigned: PartitionState,
        config: TopicConfig,
        *,
        is_new: bool,
    ) -> Partition:
        """Host one partition in the role that `assigned` gives it, creating its log if there is none.

        Args:
            config: the topic's configuration; see `topic_config`.
            is_new: whether the partition has never been here. If it may have been, its log may be in an offline log
                directory, and no log is created while there is such a directory.

        Raises:
            KafkaStorageError, InconsistentTopicIdError: the log cannot be used, and the partition is offline.
        """
        key = (topic, index)
        self._indexes.setdefault(topic, set()).add(index)
        partition = self._partitions.get(key)
        if partition is None:
            try:
                log = self.logs.create(topic, index, topic_id, config.log, is_new=is_new)
                if log.config != config.log:
                    # It was loaded at the start, with the configuration of that time.
                    log.config = config.log
            except (KafkaStorageError, InconsistentTopicIdError) as error:
                # The log may have been created, in a directory that fails before the next attempt.
                self._offline[key] = _Unhosted(topic_id, assigned, config, is_new=False)
                if isinstance(error, KafkaStorageError):
                    self.retries.add(key)
                raise
            partition = Partition(
                topic,
                index,
                self.broker_id,
                log,
                config.min_insync,
                self.counters.topic(topic),
                max_lag_ms=self.config["replica.lag.time.max.ms"],
                clock_ms=self.runtime.monotonic_ms,
                alive=lambda: self.alive,
                may_append=lambda: self.may_append(),
            )
            partition.throttle(config.throttled)
            log.offsets.on_start_raised = lambda: self._notify_fetches(partition)
            self._partitions[key] = partition
            self._offline.pop(key, None)
            self.retries.discard(key)
            self.moves.resume_found(log)
        partition.is_told_by_id = topic_id is not None
        if partition.become(assigned):
            self._role_changed(partition)
            self._calls.begin(partition)
        return partition

    def _host_again(self, key: tuple[str, int]) -> bool:
        """Try again to host an offline partition; return whether the retries can end."""
        unhosted = self._offline.get(key)
        if unhosted is None or (assigned := unhosted.assigned) is None:
            return True
        topic_id, _, config, is_new = unhosted
        try:
            self.host_partition(*key, topic_id, assigned, config, is_new=is_new)
        except KafkaStorageError:
            return False
        except InconsistentTopicIdError as error:
            logger.error("partition %s-%d is offline: its log cannot be used: %s", *key, error)
            return True
        logger.info("partition %s-%d is hosted now", *key)
        return True

    def retry(self, topic: str, index: int) -> None:
        """Retry hosting an offline partition after the obstacle is gone."""
        if (topic, index) in self._offline:
            self._host_again((topic, index))

    def stop_timers(self) -> None:
        """Retry offline partitions and call followers no more, because the broker stops."""
        self.retries.close()
        self._calls.close()

    def reconfigure(self, state: TopicState) -> None:
        """Apply the topic's changed configuration to its partitions here, whether `state` has them already or not."""
        indexes = self._indexes.get(state.name)
        if indexes is None:
            return
        config = self.topic_config(state.config, state.name)
        for index in indexes:
            key = state.name, index
            if (unhosted := self._offline.get(key)) is not None:
                self._offline[key] = unhosted._replace(config=config)
            if (partition := self._partitions.get(key)) is not None:
                partition.log.config = config.log
                partition.min_insync = config.min_insync
                partition.throttle(config.throttled)

    def reconfigure_broker(self, config: BrokerConfig) -> None:
        """Apply the broker's changed configuration; `reconfigure` applies the defaults in it to a topic."""
        self.config = config
        for partition in self:
            partition.max_lag_ms = config["replica.lag.time.max.ms"]
        for changed in self.on_reconfigured:
            changed()

    def topic_config(self, overrides: Mapping[str, str], topic: str | None = None) -> TopicConfig:
        """Return the configuration of the partitions of a topic with these `overrides` of the broker's defaults.

        Overrides that cannot be read are not in force. If the topic's name is given, the broker's log names them, and
        the values that were read last stay in force.
        """
        stored = read_topic_config(overrides) if topic is None else self.config_faults.read(topic, overrides)
        effective = self.config.topic_values(stored.values)
        throttled = Throttled.on(
            self.broker_id,
            effective["leader.replication.throttled.replicas"],
            effective["follower.replication.throttled.replicas"],
        )
        return TopicConfig(self.config.stored_log_config(stored), int(effective["min.insync.replicas"]), throttled)

    def stop_partition(self, topic: str, index: int) -> Partition | None:
        """Stop serving a partition, if it is hosted here; its log stays open."""
        self._offline.pop((topic, index), None)
        self.retries.discard((topic, index))
        indexes = self._indexes.get(topic, set())
        indexes.discard(index)
        if not indexes:
            self._indexes.pop(topic, None)
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            partition.stop()
            self._role_changed(partition)
        return partition

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Forget the counters of topics of which no partition is hosted here any more."""
        hosted = {topic for topic, _ in self._partitions}
        for topic in topics:
            if topic not in hosted:
                self.counters.forget(topic)
                self.config_faults.forget(topic)

    def directory_failed(self, path: Path) -> None:
        """Wake the operations that wait for partitions in a failed log directory, so that clients get an error."""
        lost = [partition for partition in self if partition.log.dir.parent == path]
        logger.warning(
            "Logs for partitions %s are offline due to failure on log directory %s",
            ", ".join(f"{partition.topic}-{partition.index}" for partition in lost) or "(none)",
            path,
        )
        for partition in lost:
            self._role_changed(partition)

    def append(
        self,
        partition: Partition,
        records: memoryview | CheckedBatch,
        nbytes: int,
        acks: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        in_transaction: bool = False,
    ) -> Appended:
        """Append a v2 batch to a partition that is led here and stores v2.

        This starts the fsync that is due, and wakes the operations that wait for the records.

        `Appended.outcome` says whether the result is acknowledged; `acknowledgement` waits for that.

        Args:
            records, origin, in_transaction: see `Partition.append`.
            nbytes: the size of the records as received.

        Raises:
            KafkaError: see `Partition.append`.
        """
        try:
            info = partition.append(records, acks, now_ms, origin=origin, in_transaction=in_transaction)
        except KafkaStorageError as error:
            self._hand_over(partition, error)
            raise
        return self._note_append(partition, info, nbytes, acks)

    def append_mirrored(
        self, partition: Partition, mirrored: MirroredRecords, expected_end: int, acks: int, now_ms: int
    ) -> Appended:
        """Append batches that keep the offsets of their source; see `append`.

        Raises:
            KafkaError: see `Partition.append_mirrored`.
        """
        try:
            info = partition.append_mirrored(mirrored, expected_end, acks, now_ms)
        except KafkaStorageError as error:
            # Some of the batches may be there. Where the log ends now is what the mirror asks for next.
            if partition.advance_high_watermark():
                self.high_watermark_advanced(partition)
            self._notify_fetches(partition)
            self._hand_over(partition, error)
            raise
        return self._note_append(partition, info, len(mirrored.records), acks)

    def append_legacy(
        self,
        partition: Partition,
        prepared: PreparedSet | None,
        nbytes: int,
        acks: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
    ) -> Appended:
        """Append the result of `prepare_set`, for records sent or stored in format v0 or v1; see `append`.

        Raises:
            KafkaError: see `Partition.append`.
        """
        try:
            info = partition.append_legacy(prepared, acks, now_ms, origin=origin)
        except KafkaStorageError as error:
            self._hand_over(partition, error)
            raise
        return self._note_append(partition, info, nbytes, acks)

    def _hand_over(self, partition: Partition, error: KafkaStorageError) -> None:
        """Take the log directory offline of a leader that cannot write, if another replica is in sync.

        The controller then has that one lead, as with Apache Kafka. Without another replica the partition stays here:
        a full disk may have room again.
        """
        log = partition.log
        if log.offline is None and len(partition.isr) > 1:
            self.logs.fail_directory(log.log_dir, f"{error}, and other brokers can lead its partitions")

    def _note_append(self, partition: Partition, info: AppendInfo, nbytes: int, acks: int) -> Appended:
        if not info.duplicate:
            partition.counters.bytes_in += nbytes
            self._notify_fetches(partition, nbytes)
            self.produce_purgatory.notify(partition.key, nbytes)
        else:
            # Time has passed, and the high watermark may wait for one follower less.
            self.high_watermark_advanced(partition)
        sync = partition.must_sync
        if sync:
            self.flushes.begin(partition)
        leading = partition.leading
        return Appended(partition, info, NO_LEADER_EPOCH if leading is None else leading.epoch, acks, sync)

    def follower_fetched(
        self,
        partition: Partition,
        replica: int,
        offset: int,
        log_start_offset: int,
        log_end: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> None:
        """Note a follower's fetch, and wake the operations that wait for the high watermark if it advances."""
        if partition.follower_fetched(replica, offset, log_start_offset, log_end, broker_epoch):
            self.high_watermark_advanced(partition)
        self.deletion_purgatory.notify(partition.key)
        self.on_follower_fetched(partition, replica)

    def _notify_fetches(self, partition: Partition, nbytes: int = ANY_MINIMUM) -> None:
        """Wake what waits, or rests, until a fetch of the partition may be answered otherwise."""
        self.resting.wake(partition.key, nbytes)
        self.fetch_purgatory.notify(partition.key, nbytes)

    def high_watermark_advanced(self, partition: Partition) -> None:
        """Wake the operations that wait for the high watermark of a partition, or for its ISR."""
        self._notify_fetches(partition)
        self.produce_purgatory.notify(partition.key)

    def append_as_follower(
        self, partition: Partition, records: memoryview, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> None:
        """Take over what the leader answered to a fetch in `leader_epoch`.

        Raises:
            FencedLeaderEpochError: the role has changed since.
            KafkaError: the records cannot be appended.
        """
        before = partition.high_watermark
        info = partition.append_as_follower(records, leader_epoch, high_watermark, self.runtime.now_ms())
        partition.raise_log_start(log_start_offset)
        if info is not None and partition.must_sync:
            self.flushes.begin(partition)
        if partition.high_watermark != before:
            self._notify_fetches(partition)

    def resign(self) -> None:
        """Give up all roles, because the cluster may have taken this broker for dead; the controller gives new ones.

        Partitions that could not be hosted stay offline: their roles end, too, so they are not tried again.
        """
        for key, unhosted in self._offline.items():
            self._offline[key] = unhosted._replace(assigned=None)
            self.retries.discard(key)
        stopped = [partition for partition in self if partition.role is not None]
        # None leads any more before the first listener is called.
        for partition in stopped:
            partition.stop()
        for partition in stopped:
            self._role_changed(partition)

    def _role_changed(self, partition: Partition) -> None:
        """Wake all operations that wait for `partition`, because a new role may change the answer."""
        for changed in self.on_role_changed:
            try:
                changed(partition)
            except Exception:
                # The others have to learn of it all the same: a coordinator would go on without its partition.
                logger.exception("the new role of %s-%d is not taken over everywhere", *partition.key)
        self.deletion_purgatory.notify(partition.key)
        self._notify_fetches(partition)
        self.produce_purgatory.notify(partition.key)

    def stabilized(self, partition: Partition) -> None:
        """Wake read_committed fetches: a transaction has ended, and its records may be read from now on."""
        # Its bytes were counted when they were appended, but they were not readable then.
        self._notify_fetches(partition)

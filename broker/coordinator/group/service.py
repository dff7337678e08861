"""The group coordinator of a broker: the partitions that it leads, and requests about their groups and offsets.

A group belongs to the partition of `__consumer_offsets` that its id hashes to, and the leader of that partition
coordinates it. The groups of a partition are loaded when this broker starts or becomes the leader, and forgotten as
soon as it is the leader no more: requests that wait are answered NOT_COORDINATOR then.
Requests about groups that are not there (yet) fail with Apache Kafka's errors.

The requests of members are served by `classic.classic_groups` and `kip848.consumer_groups`. Both find or make a
`coordinator_parts.Group` in the `PartitionGroups` that `GroupCoordinator.partition_groups_for` returns, change its
`membership.Membership`, and call `PartitionGroups.settle`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from broker.config.server import BrokerConfig
from broker.controller.topics import TopicController
from broker.coordinator.group.classic.classic_group import ClassicSettings
from broker.coordinator.group.coordinator_parts import (
    CoordinatorParts,
    Group,
    GroupCounters,
    GroupKind,
    ListedGroup,
    LoadState,
)
from broker.coordinator.group.membership import CommitRequest, GroupSummary, Moment
from broker.coordinator.group.offsets import Committed, OffsetsView, TopicPartition
from broker.coordinator.group.partition_groups import PartitionGroups
from broker.coordinator.group.removal import TOMBSTONES_AT_ONCE
from broker.coordinator.partition_count import ReadCount
from broker.coordinator.state_log import LOADS_AT_ONCE, StateLog, StateRecord
from broker.coordinator.state_topic import consumer_offsets_topic
from broker.metadata.model import TopicState
from broker.replica.acknowledging.appended import Appended
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from kafkalog.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    GroupIdNotFoundError,
    InvalidGroupIdError,
    KafkaError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
)
from kafkalog.protocol.primitives import fits_string
from kafkalog.storage.topics import CONSUMER_OFFSETS

logger = logging.getLogger(__name__)

Admit = Callable[[Partition], None]
"""Lets a transactional append to a partition pass, or raises a KafkaError; called in the turn of the append."""

OFFSETS_AT_ONCE = 500
"""Number of offsets whose records are made before other requests get their turn."""


class GroupCoordinator:
    """The group coordinator. Used on the event loop's thread only.

    Args:
        replicas: the broker's partitions.
        topics: creates `__consumer_offsets`.
        read_count: as that of `StateLog`.

    Attributes:
        kinds: the kinds of groups other than the classic one; to be added before the first partition is loaded.
        counters: counts since the start.
    """

    def __init__(
        self, *, replicas: ReplicaManager, topics: TopicController, read_count: ReadCount | None = None
    ) -> None:
        self.runtime = replicas.runtime
        self._loop = self.runtime.loop
        self._replicas = replicas
        self._now_ms = now_ms = self.runtime.now_ms
        self.counters = GroupCounters()
        self.kinds: list[GroupKind] = []
        self.log = StateLog(
            lambda: consumer_offsets_topic(self.config, topics.replica_limit),
            replicas=replicas,
            topics=topics,
            now_ms=now_ms,
            read_count=read_count,
        )
        self._parts = CoordinatorParts(
            loop=self._loop,
            log=self.log,
            settings=lambda: ClassicSettings(
                self.config["group.initial.rebalance.delay.ms"], self.config["group.max.size"]
            ),
            now=self.now,
            new_member_id=lambda start: f"{start}-{self.runtime.uuid4()}",
            commit_timeout_ms=lambda: int(self.config["offsets.commit.timeout.ms"]),
            counters=self.counters,
            kinds=self.kinds,
        )
        self._partitions: dict[int, PartitionGroups] = {}
        self._deleting: dict[frozenset[str], dict[int, int]] = {}
        """By the topics of one deletion, the log end offset of each partition at the time when it was committed."""
        self._looked_at: TopicState | None = None
        """The state of the topic when all of its partitions were last checked."""
        self._loading = asyncio.Semaphore(LOADS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = self._stopped = False
        topics.on_deleting.append(self._topics_deleting)
        topics.on_deleted.append(self._topics_deleted)
        replicas.on_role_changed.append(self._role_changed)

    @property
    def config(self) -> BrokerConfig:
        return self._replicas.config

    def now(self) -> Moment:
        """Return the current moment."""
        return Moment(int(self._loop.time() * 1000), self._now_ms())

    # -- starting and stopping

    def start(self) -> None:
        """Begin to load the groups of the partitions that are led here, and to look for expired offsets."""
        self._started = True
        self._load_all()
        self.spawn(self._expire_for_ever())

    def stop(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, and serve no more."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        partitions, self._partitions = self._partitions, {}
        for partition_groups in partitions.values():
            partition_groups.unload()

    async def ready(self) -> int:
        """Create `__consumer_offsets` if it does not exist; return its number of partitions.

        Raises:
            CoordinatorNotAvailableError: it cannot be made.
        """
        count = await self.log.ensure()
        if self.log.state is not self._looked_at:
            self._load_all()
        return count

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` whose leader coordinates a group.

        Raises:
            CoordinatorNotAvailableError: there is no such topic yet; see `ready`.
        """
        return self.log.partition_for(group_id)

    def _load_all(self) -> None:
        self._looked_at = self.log.state
        for index in range(self.log.partitions or 0):
            self._current(index)

    # -- partitions

    def most_stored(self, group_id: str) -> int:
        """Return how many bytes one change of a group may take in the group's log.

        Raises:
            KafkaError: see `partition_groups_for`.
        """
        self.partition_groups_for(group_id)
        return self.log.most_bytes(self.log.partition_for(group_id))

    def partition_groups_for(self, group_id: str, *, may_be_nameless: bool = False) -> PartitionGroups:
        """Return the groups of the partition that a group belongs to, when they can serve requests.

        Args:
            may_be_nameless: the API takes groups whose id is empty, which only have offsets.

        Raises:
            InvalidGroupIdError: the id is empty, or too long for a record.
            CoordinatorLoadInProgressError: the partition is being loaded, or the group is being deleted.
            NotCoordinatorError: the partition is led elsewhere, or could not be loaded.
            CoordinatorNotAvailableError: the broker is stopping.
        """
        if not (group_id or may_be_nameless) or not fits_string(group_id):
            raise InvalidGroupIdError
        if self._stopped:
            raise CoordinatorNotAvailableError
        if self.log.partitions is None:
            raise NotCoordinatorError
        partition_groups = self._current(self.log.partition_for(group_id))
        if partition_groups is None or partition_groups.state in (LoadState.FAILED, LoadState.CLOSED):
            raise NotCoordinatorError
        if partition_groups.state is LoadState.LOADING:
            raise CoordinatorLoadInProgressError
        if group_id in partition_groups.deleting:
            # Treat it as being loaded: a retry a moment later will find it.
            raise CoordinatorLoadInProgressError
        return partition_groups

    def all_partition_groups(self) -> list[PartitionGroups]:
        """Return the groups of all partitions that are loaded or being loaded."""
        found = [self._current(index) for index in range(self.log.partitions or 0)]
        return [each for each in found if each is not None]

    def _current(self, index: int) -> PartitionGroups | None:
        """Return a partition's groups under its present leadership, or None where it is not led here.

        The groups begin to load where the leadership is new.
        """
        partition = self.log.leads(index)
        partition_groups = self._partitions.get(index)
        if partition_groups is not None:
            if partition_groups.is_of(partition) and not partition_groups.is_to_be_loaded_again(self.now().ms):
                return partition_groups
            del self._partitions[index]
            partition_groups.unload()
        if partition is None or self._stopped:
            return None
        partition_groups = self._partitions[index] = PartitionGroups(index, partition, self._parts)
        if partition.log.log_end_offset == partition.log.log_start_offset:
            partition_groups.activate_empty()
        else:
            self.spawn(self._load(partition_groups))
        return partition_groups

    async def _load(self, partition_groups: PartitionGroups) -> None:
        async with self._loading:
            await partition_groups.load()

    def _role_changed(self, partition: Partition) -> None:
        # Before the start nothing is loaded; `start` looks at all partitions.
        if partition.topic == CONSUMER_OFFSETS and (self._started or partition.index in self._partitions):
            self._current(partition.index)

    def _topics_deleting(self, topics: frozenset[str]) -> None:
        self._deleting[topics] = {index: each.partition.log.log_end_offset for index, each in self._partitions.items()}

    def _topics_deleted(self, topics: frozenset[str]) -> None:
        ends = self._deleting.pop(topics, {})
        if CONSUMER_OFFSETS in topics:
            partitions, self._partitions = self._partitions, {}
            for partition_groups in partitions.values():
                partition_groups.unload()
        elif self.log.partitions is not None and not self._stopped:
            self.spawn(self._forget_topics(topics, ends))

    async def _forget_topics(self, topics: frozenset[str], ends: Mapping[int, int]) -> None:
        counts = [await each.forget_topics(topics, ends.get(each.index)) for each in self.all_partition_groups()]
        if sum(counts):
            which = f"the topic {next(iter(topics))}" if len(topics) == 1 else f"{len(topics)} topics"
            logger.info("removed %d offsets of %s, now deleted", sum(counts), which)

    async def _expire_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.config["offsets.retention.check.interval.ms"] / 1000)
            try:
                await self.expire_offsets()
            except Exception:
                logger.exception("expired offsets could not be removed; retrying later")

    async def expire_offsets(self) -> int:
        """Remove expired offsets (`offsets.retention.minutes`); return how many."""
        retention_ms = self.config["offsets.retention.minutes"] * 60_000
        count = 0
        for partition_groups in self.all_partition_groups():
            if partition_groups.state is LoadState.ACTIVE:
                count += await partition_groups.removal.expire(retention_ms)
        if count:
            logger.info("removed %d expired offsets", count)
        return count

    def spawn(self, work: Awaitable[None]) -> None:
        """Run a task beside the requests, until the coordinator stops."""

        async def run() -> None:
            await work

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- offsets

    async def commit(
        self,
        group_id: str,
        request: CommitRequest,
        offsets: Mapping[TopicPartition, Committed],
        producer: tuple[int, int] | None = None,
        admit: Admit | None = None,
    ) -> dict[TopicPartition, ErrorCode]:
        """Handle OffsetCommit and, with a `producer` (id, epoch), TxnOffsetCommit; return the errors of partitions.

        Args:
            admit: checks that the producer's transaction covers the partition of `__consumer_offsets`.

        Raises:
            KafkaError: none of it was stored.
        """
        may_be_nameless = producer is None
        self.partition_groups_for(group_id, may_be_nameless=may_be_nameless)
        limit = self.config["offset.metadata.max.bytes"]
        fitting: dict[TopicPartition, Committed] = {}
        records: list[StateRecord] = []
        errors: dict[TopicPartition, ErrorCode] = {}
        for number, (partition, offset) in enumerate(offsets.items(), 1):
            if len(offset.metadata) <= limit and fits_string(offset.metadata):
                fitting[partition] = offset
                records.append(offset.record(group_id, partition))
            else:
                errors[partition] = OffsetMetadataTooLargeError.code
            if number % OFFSETS_AT_ONCE == 0:
                await asyncio.sleep(0)
        batch = None
        if len(records) > OFFSETS_AT_ONCE:
            batch = await self.log.encoded(self.log.partition_for(group_id), records, producer)
        # There is no await between this check and the append: the append is one batch, of a member that may commit.
        partition_groups = self.partition_groups_for(group_id, may_be_nameless=may_be_nameless)
        if admit is not None:
            admit(partition_groups.partition)
        await partition_groups.commit(group_id, request, fitting, records, producer, batch)
        return errors

    def offsets_of(
        self,
        group_id: str,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> OffsetsView:
        """Handle OffsetFetch: return the committed offsets of a group.

        Raises:
            KafkaError: the group cannot be used, or not by this member.
        """
        group = self.partition_groups_for(group_id, may_be_nameless=True).groups.get(group_id)
        if group is None:
            return OffsetsView(None)
        group.membership.check_fetch(member_id, member_epoch)
        return OffsetsView(group.offsets, require_stable=require_stable)

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Handle OffsetDelete; return the errors of partitions that have one.

        Partitions are removed some at a time, and others have their turn in between.

        Raises:
            GroupIdNotFoundError: there is no such group.
            NonEmptyGroupError: the group has members that are not consumers.
            InvalidGroupIdError: the id is empty.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see
                `partition_groups_for`.
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        for first in range(0, max(len(partitions), 1), TOMBSTONES_AT_ONCE):
            some = partitions[first : first + TOMBSTONES_AT_ONCE]
            if first:
                await asyncio.sleep(0)
            partition_groups = self.partition_groups_for(group_id)
            group = partition_groups.groups.get(group_id)
            if group is None:
                if first:
                    # The group was removed meanwhile, with all of its committed offsets.
                    break
                raise GroupIdNotFoundError
            # Check it each time: members that consume the topics may have joined.
            read = group.membership.consumed({topic for topic, _ in some})
            await partition_groups.removal.delete_offsets(group_id, [each for each in some if each[0] not in read])
            errors |= {partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC for partition in some if partition[0] in read}
        return errors

    def on_marker(self, producer_id: int, committed: bool, written: Appended) -> None:
        """Handle a marker, which ends a producer's transaction, appended to a partition of `__consumer_offsets`.

        The writer of the marker calls it, before anything else is appended.
        """
        partition_groups = self._partitions.get(written.partition.index)
        if partition_groups is not None:
            partition_groups.on_marker(producer_id, committed, written)

    # -- administration

    def groups(self) -> list[Group]:
        """Return every group of this coordinator. Any thread may call it."""
        return [group for each in list(self._partitions.values()) for group in list(each.groups.values())]

    def list_groups(self) -> tuple[ErrorCode, Iterable[ListedGroup]]:
        """Handle ListGroups: return an error, and the loaded groups, each read when it is taken.

        While some partitions are being loaded, the error is COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._stopped:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        loading = any(each.state is LoadState.LOADING for each in self.all_partition_groups())
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE, map(ListedGroup.of, self.groups())

    def describe(self, group_id: str) -> GroupSummary:
        """Handle DescribeGroups of one group; a group that does not exist is Dead.

        Raises:
            KafkaError: the group cannot be used.
        """
        group = self.partition_groups_for(group_id, may_be_nameless=True).groups.get(group_id)
        summary = None if group is None else group.membership.summary()
        return GroupSummary("Dead", "", "", []) if summary is None else summary

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Handle DeleteGroups of one group; return its error."""
        try:
            await self.partition_groups_for(group_id, may_be_nameless=True).removal.delete_group(group_id)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

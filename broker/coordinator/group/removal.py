"""Delete the groups of one partition of `__consumer_offsets` and their committed offsets, or let offsets expire.

Each removal writes a tombstone to the log first. Large groups are removed in pieces, and other requests have their turn
between two pieces.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from broker.coordinator.batch_sizes import RECORD_BYTES, fitting
from broker.coordinator.group.coordinator_parts import CoordinatorParts, Group, LoadState
from broker.coordinator.group.offsets import TopicPartition, tombstones
from broker.coordinator.state_log import as_coordinator_error
from broker.replica.acknowledging.appended import Appended
from broker.replica.partition import ACKS_ALL, ACKS_LEADER
from kafkalog.protocol.errors import GroupIdNotFoundError, KafkaError, NotCoordinatorError

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOMBSTONES_AT_ONCE = 1000
"""The most tombstones in one record batch; a group may need more batches."""


class Owner(Protocol):
    """The groups of a partition, as `partition_groups.PartitionGroups` has them."""

    @property
    def index(self) -> int: ...
    @property
    def state(self) -> LoadState: ...
    @property
    def groups(self) -> Mapping[str, Group]: ...
    @property
    def deleting(self) -> set[str]: ...
    def in_turns(self) -> AsyncIterator[Group]: ...
    def drop(self, group: Group, acks: int) -> list[Appended]: ...
    async def acknowledged(self, written: Appended) -> None: ...


class Removal:
    """Removes groups and offsets of one partition, its `owner`. Used on the event loop's thread only."""

    def __init__(self, owner: Owner, parts: CoordinatorParts) -> None:
        self._owner = owner
        self._parts = parts

    async def delete_group(self, group_id: str) -> None:
        """Delete an empty group and all of its committed offsets.

        Raises:
            GroupIdNotFoundError: there is no such group.
            NonEmptyGroupError: it has members.
            KafkaError: the tombstones could not be stored.
        """
        group = self._owner.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        group.membership.check_deletable()
        removed = list(group.offsets.known())
        self._parts.counters.offset_deletions += len(removed)
        written: list[Appended] = []
        # Other requests have their turn meanwhile. No member may join or commit, or only a part of it would be removed.
        self._owner.deleting.add(group_id)
        try:
            async for some in self._pieces_of(group, removed):
                written += self._remove_offsets(group, sorted(some))
            if self._owner.state is not LoadState.ACTIVE:
                raise NotCoordinatorError
            written += self._owner.drop(group, ACKS_ALL)
        finally:
            self._owner.deleting.discard(group_id)
        for each in written:
            await self._owner.acknowledged(each)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of a group.

        Raises:
            GroupIdNotFoundError: there is no such group.
            KafkaError: the tombstones could not be stored.
        """
        group = self._owner.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        removed = [partition for partition in dict.fromkeys(partitions) if group.offsets.knows(partition)]
        self._parts.counters.offset_deletions += len(removed)
        for written in [*self._remove_offsets(group, removed), *self._drop_if_done(group)]:
            await self._owner.acknowledged(written)

    async def forget_topics(self, topics: frozenset[str], end: int | None = None) -> int:
        """Delete the offsets committed for deleted topics; return how many.

        One walk over the groups serves all topics that were deleted together.

        Args:
            end: the log end offset of the groups' partition when the topics were deleted; None for the present one.
                Offsets stored from there on belong to new topics of these names.
        """
        count = 0
        async for group in self._owner.in_turns():
            offsets = group.offsets
            found = {
                at: offset
                for at in offsets.known()
                if at[0] in topics
                if (offset := offsets.latest(at)) is not None and (end is None or offset.stored_at < end)
            }
            async for some in self._pieces_of(group, list(found)):
                # Offsets committed since then belong to a new topic of that name.
                same = sorted(at for at in some if offsets.latest(at) is found[at])
                if same and self._clear(group, same):
                    count += len(same)
        return count

    async def expire(self, retention_ms: int) -> int:
        """Delete expired offsets, and empty groups that have none left; return how many offsets."""
        count = 0
        async for group in self._owner.in_turns():
            async for some in self._pieces_of(group, group.offsets.partitions()):
                # Check this for each piece: members may have joined, and offsets committed since have not expired.
                retention = group.membership.retention()
                expired: list[TopicPartition] = []
                if retention is not None:
                    expired = group.offsets.expired(retention, retention_ms, self._parts.now().wall_ms, some)
                if self._clear(group, expired):
                    count += len(expired)
        self._parts.counters.offset_expirations += count
        return count

    async def _pieces_of(
        self, group: Group, partitions: Sequence[TopicPartition]
    ) -> AsyncIterator[Sequence[TopicPartition]]:
        """Yield the partitions of a group in pieces, at least one, letting requests have their turn in between.

        It ends when the group is removed meanwhile.
        """
        yield partitions[:TOMBSTONES_AT_ONCE]
        for first in range(TOMBSTONES_AT_ONCE, len(partitions), TOMBSTONES_AT_ONCE):
            await asyncio.sleep(0)
            if self._owner.groups.get(group.id) is not group:
                return
            yield partitions[first : first + TOMBSTONES_AT_ONCE]

    def _clear(self, group: Group, partitions: Sequence[TopicPartition]) -> bool:
        """Delete offsets of a group, and the group if nothing else is left; return whether that could be stored.

        Nobody waits for the tombstones, so they need no minimum of replicas in sync. Nobody would come back, either:
        a new topic of the name of a deleted one would have its offsets.
        """
        try:
            self._remove_offsets(group, partitions, ACKS_LEADER)
            self._drop_if_done(group, ACKS_LEADER)
        except Exception as error:
            logger.warning("offsets of group %s could not be removed: %s", group.id, error)
            return False
        return True

    def _remove_offsets(
        self, group: Group, partitions: Sequence[TopicPartition], acks: int = ACKS_ALL
    ) -> list[Appended]:
        """Delete offsets, with tombstones in the log.

        Raises:
            KafkaError: the tombstones of some offsets cannot be appended; those offsets stay.
        """
        written = []
        group_bytes = RECORD_BYTES + len(group.id.encode())
        for some in self.batches(partitions, lambda partition: group_bytes + len(partition[0].encode())):
            written.append(self._parts.log.write(self._owner.index, tombstones(group.id, some), acks=acks))
            group.offsets.remove(some)
        return written

    def batches(self, items: Sequence[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
        """Divide tombstones among batches that the log takes; `size_of` returns the bytes of each.

        Raises:
            CoordinatorNotAvailableError, NotCoordinatorError: The partition is not led here.
        """
        try:
            most_bytes = self._parts.log.most_bytes(self._owner.index)
        except KafkaError as error:
            raise as_coordinator_error(error) from error
        return fitting(items, size_of, most_bytes, TOMBSTONES_AT_ONCE)

    def _drop_if_done(self, group: Group, acks: int = ACKS_ALL) -> list[Appended]:
        """Delete the group when it has neither members nor offsets."""
        if not group.membership.is_empty or not group.offsets.is_empty:
            return []
        return self._owner.drop(group, acks)

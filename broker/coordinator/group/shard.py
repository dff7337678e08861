"""The groups of one partition of ``__consumer_offsets``: loaded from it, kept while it is led here, stored in it.

What a group wants done (`membership.Answer`, `membership.Store`) is done here, after each call: records are appended
at once, so that their order in the log is that of the changes, and who waits is answered once they are replicated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from broker.coordinator.group.classic.classic_group import ClassicGroup, ClassicSettings
from broker.coordinator.group.consumer_membership import ConsumerMembership
from broker.coordinator.group.membership import Answer, CommitRequest, Membership, Store
from broker.coordinator.group.offsets import Committed, GroupOffsets, TopicPartition, placed, tombstones
from broker.coordinator.group.replay import Replay
from broker.coordinator.group.shard_parts import Group, ShardParts, ShardState
from broker.coordinator.state_log import DEFAULT_TIMEOUT_MS, StateRecord
from broker.replica.partition import Appended, Partition
from kafkalog.protocol.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    MessageTooLargeError,
    NotCoordinatorError,
    RecordListTooLargeError,
    RequestTimedOutError,
)

logger = logging.getLogger("kafkalog.broker.groups")

T = TypeVar("T")

GROUPS_AT_ONCE = 500
"""Groups that are loaded or looked through before requests get their turn."""
TOMBSTONES_AT_ONCE = 1000
"""Records of a batch that removes: a group may have more than fit in one."""
WAKE_AGAIN_S = 1.0
"""When a group is woken again, if an error kept it from doing what was due."""
MEMBER_EPOCH_VERSION = 9
"""The version of OffsetCommit that tells GROUP_ID_NOT_FOUND, for the consumer protocol."""


class Shard:
    """See the module. Used on the event loop's thread only.

    Attributes:
        partition: of the log.
        leader_epoch: in which this broker leads it.
        groups: by id.
        failed_ms: when it became FAILED, of the clock of timers.
    """

    def __init__(self, index: int, partition: Partition, parts: ShardParts) -> None:
        self.index = index
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state = ShardState.LOADING
        self.failed_ms = 0
        self.groups: dict[str, Group] = {}
        self.deleting: set[str] = set()
        """Groups that are being deleted: nothing may be asked of them until that is done."""
        self._parts = parts
        self._producers: dict[int, set[str]] = {}
        """Groups that a producer's transaction has committed offsets of."""
        self._markers: list[tuple[int, bool, Appended]] = []
        """Of transactions that ended while the shard was loading."""

    def settings(self) -> ClassicSettings:
        """Of classic groups."""
        return self._parts.settings()

    def new_member_id(self, start: str) -> str:
        """An id that nobody has, which begins with ``start``."""
        return self._parts.new_member_id(start)

    # -- loading and unloading

    async def load(self) -> None:
        """Read the groups; the state afterwards says how it went."""
        parts = self._parts
        began = parts.now().ms
        replay = Replay(parts.readers())
        try:
            async for _ in parts.log.replay(self.index, replay.apply):
                if self.state is not ShardState.LOADING:
                    return
            await self._take(replay)
            await self._resume()
        except Exception as error:
            if self.state is ShardState.LOADING:
                self.fail(f"cannot be loaded: {error}")
            return
        if self.state is not ShardState.LOADING:
            return
        for marker in self._markers:
            self._decided(*marker)
        self.state = ShardState.ACTIVE
        took_ms = parts.now().ms - began
        parts.counters.loads += 1
        parts.counters.load_ms += took_ms
        for kind, count in replay.unknown.items():
            logger.warning(
                "%s-%d has %d records of the unknown type %d, left alone", parts.log.topic, self.index, count, kind
            )
        if replay.records:
            logger.info(
                "loaded %d groups from %d records of %s-%d in %d ms",
                len(self.groups), replay.records, parts.log.topic, self.index, took_ms,
            )  # fmt: skip

    def activate_empty(self) -> None:
        """There is nothing to be loaded."""
        self.state = ShardState.ACTIVE

    async def _take(self, replay: Replay) -> None:
        replay.finish()
        parts = self._parts
        for number, group_id in enumerate(replay.group_ids(), 1):
            membership: Membership
            now = parts.now()
            if group_id in replay.others:
                membership = parts.load_membership(group_id, replay.others[group_id], now)
            elif group_id in replay.classic:
                value = replay.classic[group_id]
                membership = ClassicGroup.load(group_id, value, parts.settings(), parts.new_member_id, now)
            else:
                membership = self._new_classic(group_id)
            offsets = replay.offsets.get(group_id, GroupOffsets())
            self.groups[group_id] = Group(group_id, membership, offsets)
            for producer_id in offsets.transactions:
                self._producers.setdefault(producer_id, set()).add(group_id)
            if number % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _resume(self) -> None:
        """Begin the members' sessions."""
        for number, group in enumerate(list(self.groups.values()), 1):
            if self.state is not ShardState.LOADING:
                return
            if isinstance(group.membership, ClassicGroup):
                group.membership.resume(self._parts.now())
            self.settle(group)
            if number % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def unload(self) -> None:
        """The partition is led here no more: who waits is answered NOT_COORDINATOR, and the groups are forgotten."""
        self.state = ShardState.CLOSED
        groups, self.groups = self.groups, {}
        for group in groups.values():
            if group.timer is not None:
                group.timer.cancel()
            _release(group)
        self._producers = {}

    # -- groups

    def classic(self, group_id: str, *, create: bool) -> tuple[Group, ClassicGroup | ConsumerMembership] | None:
        """The group that classic members belong to, made if it is not there and ``create`` says so; else None.

        An empty group of the consumer protocol becomes a classic one when it is to be made. One with members serves
        classic members beside its own.
        """
        group = self.groups.get(group_id)
        if group is None:
            if not create:
                return None
            group = self.groups[group_id] = Group(group_id, self._new_classic(group_id), GroupOffsets())
        membership = group.membership
        if isinstance(membership, ConsumerMembership) and membership.is_empty:
            if not create:
                return None
            self.convert(group, self._new_classic(group_id))
            membership = group.membership
        assert isinstance(membership, ClassicGroup | ConsumerMembership)
        return group, membership

    def convert(self, group: Group, membership: Membership) -> None:
        """Let an empty group speak another protocol from now on; what it has committed stays.

        Raises:
            KafkaError: that cannot be stored.
        """
        self._bury(group)
        _release(group)
        group.membership = membership
        self.settle(group)

    def settle(self, group: Group) -> None:
        """Do what the group wants done, and see to it that it is woken in time. To be called after every change."""
        # What cannot be stored may bring back the membership that was there before.
        while group.membership.out:
            effect = group.membership.out.pop(0)
            if isinstance(effect, Answer):
                _answer(effect)
            else:
                self._store(group, effect)
        self._arm(group)

    def _store(self, group: Group, effect: Store) -> None:
        log = self._parts.log
        try:
            written = log.write(self.index, effect.records)
        except Exception as error:
            logger.warning("group %s could not be stored: %s", group.id, error)
            effect.done(_code(error), self._parts.now())
            return
        membership = group.membership
        future = log.acknowledged(written, self._parts.commit_timeout_ms())

        def done(future: asyncio.Future[int]) -> None:
            error = future.exception()
            if error is not None:
                logger.warning("group %s was not replicated: %s", group.id, error)
                self._lost(error)
            if self.groups.get(group.id) is group and group.membership is membership:
                effect.done(None if error is None else _code(error), self._parts.now())
                self.settle(group)

        if future.done():
            done(future)
        else:
            future.add_done_callback(done)

    async def _acknowledged(self, written: Appended, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        try:
            await self._parts.log.acknowledged(written, timeout_ms)
        except KafkaError as error:
            self._lost(error)
            raise

    def _lost(self, error: BaseException) -> None:
        """What was appended is not replicated, and may be lost: unless that may yet come, the groups are read anew."""
        if self.state is ShardState.ACTIVE and not isinstance(error, RequestTimedOutError):
            self.fail(f"are read anew, for what was appended may be lost: {error}")

    def fail(self, reason: str) -> None:
        """Forget the groups, of which it is not known what the log says, until they are loaded again."""
        parts = self._parts
        self.unload()
        self.state = ShardState.FAILED
        self.failed_ms = parts.now().ms
        logger.error("the groups of %s-%d %s", parts.log.topic, self.index, reason)

    def _arm(self, group: Group) -> None:
        at = group.membership.wake_at
        timer = group.timer
        if at is None or self.groups.get(group.id) is not group:
            if timer is not None:
                timer.cancel()
            group.timer = None
            return
        when = (at + 1) / 1000
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        group.timer = self._parts.loop.call_at(when, self._wake, group)

    def _wake(self, group: Group) -> None:
        group.timer = None
        try:
            group.membership.wake(self._parts.now())
            self.settle(group)
        except Exception:
            logger.exception("what was due in group %s failed; it is tried again", group.id)
            if group.timer is None and self.groups.get(group.id) is group:
                group.timer = self._parts.loop.call_later(WAKE_AGAIN_S, self._wake, group)

    def _new_classic(self, group_id: str) -> ClassicGroup:
        parts = self._parts
        return ClassicGroup(group_id, parts.settings(), parts.new_member_id, parts.now())

    # -- offsets

    async def commit(
        self,
        group_id: str,
        request: CommitRequest,
        offsets: Mapping[TopicPartition, Committed],
        records: Sequence[StateRecord],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Store offsets of a group, plainly or in a ``producer``'s (id, epoch) transaction.

        Args:
            records: those of the offsets, in the same order.

        Raises:
            KafkaError: the member may not commit, or they could not be stored.
        """
        group = self.groups.get(group_id)
        if group is None:
            if request.epoch >= 0 and not request.transactional:
                raise GroupIdNotFoundError if request.version >= MEMBER_EPOCH_VERSION else IllegalGenerationError
            group = self.groups[group_id] = Group(group_id, self._new_classic(group_id), GroupOffsets())
        group.membership.check_commit(request, self._parts.now())
        self.settle(group)
        if not offsets:
            return
        try:
            written = self._write_offsets(group, offsets, records, producer)
        except (MessageTooLargeError, RecordListTooLargeError) as error:
            raise InvalidCommitOffsetSizeError from error
        await self._acknowledged(written, self._parts.commit_timeout_ms())
        self._parts.counters.offset_commits += len(offsets)

    def _write_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, Committed],
        records: Sequence[StateRecord],
        producer: tuple[int, int] | None,
    ) -> Appended:
        """Append offsets; the group knows of them, in the order of the log, also if nobody awaits their replicas."""
        log = self._parts.log
        if producer is None:
            written = log.write(self.index, records)
            group.offsets.appended(placed(offsets, written.first_offset), written.last_offset)
            log.when_replicated(written, group.offsets.replicated)
        else:
            producer_id, epoch = producer
            written = log.write(self.index, records, producer_id=producer_id, producer_epoch=epoch, transactional=True)
            group.offsets.appended_transactional(producer_id, placed(offsets, written.first_offset))
            self._producers.setdefault(producer_id, set()).add(group.id)
        return written

    def on_marker(self, producer_id: int, committed: bool, written: Appended) -> None:
        """The end of a producer's transaction was appended to the partition."""
        if self.state is ShardState.LOADING:
            # It may or may not have been read; twice is as good as once.
            self._markers.append((producer_id, committed, written))
        elif self.state is ShardState.ACTIVE:
            self._decided(producer_id, committed, written)

    def _decided(self, producer_id: int, committed: bool, written: Appended) -> None:
        for group_id in self._producers.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.decided(producer_id, committed, written.last_offset)
                self._parts.log.when_replicated(written, group.offsets.replicated)

    # -- removal

    async def delete_group(self, group_id: str) -> None:
        """Forget an empty group and all that it has committed.

        Raises:
            GroupIdNotFoundError, NonEmptyGroupError.
            KafkaError: that could not be stored.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        group.membership.check_deletable()
        removed = list(group.offsets.known())
        self._parts.counters.offset_deletions += len(removed)
        written: list[Appended] = []
        # Others have their turn meanwhile. No member comes and nothing is committed: it would be removed in part.
        self.deleting.add(group_id)
        try:
            async for some in self._pieces_of(group, removed):
                written += self._remove_offsets(group, sorted(some))
            if self.state is not ShardState.ACTIVE:
                raise NotCoordinatorError
            written += self._drop(group)
        finally:
            self.deleting.discard(group_id)
        for each in written:
            await self._acknowledged(each)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget offsets of a group.

        Raises:
            KafkaError: that could not be stored.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError
        removed = [partition for partition in dict.fromkeys(partitions) if group.offsets.knows(partition)]
        self._parts.counters.offset_deletions += len(removed)
        for written in [*self._remove_offsets(group, removed), *self._drop_if_done(group)]:
            await self._acknowledged(written)

    async def forget_topic(self, topic: str) -> int:
        """Forget what was committed of a topic that was deleted; how many offsets."""
        count = 0
        async for group in self._in_turns():
            committed = group.offsets.committed
            found = {at: committed.get(at) for at in group.offsets.known() if at[0] == topic}
            async for some in self._pieces_of(group, list(found)):
                # Unless it was committed since, of a topic that is there again.
                same = sorted(at for at in some if found[at] is None or committed.get(at) is found[at])
                if same and self._clear(group, same):
                    count += len(same)
        return count

    async def expire(self, retention_ms: int) -> int:
        """Forget offsets whose time is over, and empty groups that have none left; how many offsets."""
        count = 0
        async for group in self._in_turns():
            async for some in self._pieces_of(group, list(group.offsets.committed)):
                # Asked each time: members may have come, and what was committed since has not expired.
                retention = group.membership.retention()
                expired: list[TopicPartition] = []
                if retention is not None:
                    expired = group.offsets.expired(retention, retention_ms, self._parts.now().wall_ms, some)
                if self._clear(group, expired):
                    count += len(expired)
        self._parts.counters.offset_expirations += count
        return count

    async def _in_turns(self) -> AsyncIterator[Group]:
        """The groups, with turns for requests in between; what was removed meanwhile is left out.

        A group that was forgotten may be back as another one, which has committed since: nothing may be written then
        that is about the one before.
        """
        for number, group in enumerate(list(self.groups.values()), 1):
            if number % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self.groups.get(group.id) is group:
                yield group

    async def _pieces_of(
        self, group: Group, partitions: Sequence[TopicPartition]
    ) -> AsyncIterator[Sequence[TopicPartition]]:
        """Some partitions of a group at a time, at least once, with turns for requests in between.

        It ends where the group is forgotten meanwhile.
        """
        yield partitions[:TOMBSTONES_AT_ONCE]
        for first in range(TOMBSTONES_AT_ONCE, len(partitions), TOMBSTONES_AT_ONCE):
            await asyncio.sleep(0)
            if self.groups.get(group.id) is not group:
                return
            yield partitions[first : first + TOMBSTONES_AT_ONCE]

    def _clear(self, group: Group, partitions: Sequence[TopicPartition]) -> bool:
        """Forget offsets of a group, and the group if there is nothing else of it; whether that could be stored."""
        try:
            self._remove_offsets(group, partitions)
            self._drop_if_done(group)
        except Exception as error:
            logger.warning("offsets of group %s could not be removed; it is tried again: %s", group.id, error)
            return False
        return True

    def _remove_offsets(self, group: Group, partitions: Sequence[TopicPartition]) -> list[Appended]:
        """Forget offsets, and have the log forget them.

        Raises:
            KafkaError: the tombstones cannot be appended, and what they are about stays.
        """
        written = []
        for some in _pieces(partitions):
            written.append(self._parts.log.write(self.index, tombstones(group.id, some)))
            group.offsets.remove(some)
        return written

    def _drop_if_done(self, group: Group) -> list[Appended]:
        """Forget a group that has neither members nor offsets."""
        if not group.membership.is_empty or not group.offsets.is_empty:
            return []
        return self._drop(group)

    def _drop(self, group: Group) -> list[Appended]:
        """Forget a group, and have the log forget it.

        Raises:
            KafkaError: its tombstones cannot be appended, and it stays.
        """
        if self.groups.get(group.id) is not group:
            return []
        written = self._bury(group)
        del self.groups[group.id]
        _release(group)
        self._arm(group)
        return written

    def _bury(self, group: Group) -> list[Appended]:
        records = group.membership.tombstones(group.id)
        return [self._parts.log.write(self.index, some) for some in _pieces(records)]


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Of `TOMBSTONES_AT_ONCE`, the records of a batch."""
    for first in range(0, len(items), TOMBSTONES_AT_ONCE):
        yield items[first : first + TOMBSTONES_AT_ONCE]


def _release(group: Group) -> None:
    """The group's membership is done with: who still waits, such as one that left, is answered NOT_COORDINATOR."""
    group.membership.unload()
    for effect in group.membership.out:
        if isinstance(effect, Answer):
            _answer(effect)
    group.membership.out.clear()


def _answer(effect: Answer) -> None:
    if not effect.token.done():
        effect.token.set_result(effect.result)


def _code(error: BaseException) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else NotCoordinatorError.code

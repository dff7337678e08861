"""The groups of one partition of `__consumer_offsets`: loaded from it, kept while this broker leads it, stored in it.

A group returns its effects as data (`membership.Answer`, `membership.Store`). `PartitionGroups.settle` carries them out
after each call. Records are appended at once, so that their order in the log is the order of the changes. Requests are
answered once the records are replicated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from broker.coordinator.batch_sizes import RECORD_BYTES
from broker.coordinator.group.classic.classic_group import ClassicGroup, ClassicSettings
from broker.coordinator.group.coordinator_parts import CoordinatorParts, Group, LoadState
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership, store_error
from broker.coordinator.group.membership import Answer, CommitRequest, Membership, Store
from broker.coordinator.group.offsets import Committed, GroupOffsets, TopicPartition, placed
from broker.coordinator.group.pace import Pace
from broker.coordinator.group.removal import Removal
from broker.coordinator.group.replay import Replay
from broker.coordinator.state_log import DEFAULT_TIMEOUT_MS, RETRY_LOAD_MS, StateRecord
from broker.replica.acknowledging.appended import Appended
from broker.replica.partition import ACKS_ALL, Partition
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
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

logger = logging.getLogger(__name__)

T = TypeVar("T")

WAKE_AGAIN_S = 1.0
"""A group is woken again after this time, in seconds, if an error interrupted its timers."""
MEMBER_EPOCH_VERSION = 9
"""From this version on, OffsetCommit answers GROUP_ID_NOT_FOUND (consumer protocol); before it ILLEGAL_GENERATION."""


class PartitionGroups:
    """The groups of one partition. Used on the event loop's thread only.

    Attributes:
        partition: the partition of `__consumer_offsets`.
        led_since: the leader epoch from which on this broker leads it.
        groups: the groups by id.
        removal: deletes groups and offsets, and lets offsets expire.
        failed_ms: when the state became FAILED, in ms of the monotonic clock.
        deleting: groups that are being deleted; requests about them are refused until that is done.
    """

    def __init__(self, index: int, partition: Partition, parts: CoordinatorParts) -> None:
        self.index = index
        self.partition = partition
        self.led_since = partition.led_since
        self.state = LoadState.LOADING
        self.failed_ms = 0
        self.groups: dict[str, Group] = {}
        self.deleting: set[str] = set()
        self.removal = Removal(self, parts)
        self._parts = parts
        self._producers: dict[int, set[str]] = {}
        """Groups in which a producer's transaction has committed offsets."""
        self._markers: list[tuple[int, bool, Appended]] = []
        """Markers of transactions that ended while the groups were being loaded: producer id, committed, marker."""
        self._deleted: list[tuple[frozenset[str], int]] = []
        """Topics that were deleted while the groups were being loaded, and the log end offset at that time."""
        self._owed: dict[asyncio.Future[int], Answer] = {}
        """The answers of `Store.answer` whose records are not replicated yet."""

    def is_of(self, partition: Partition | None) -> bool:
        """Return whether these are the groups of `partition`, which this broker has led without a break since."""
        return self.partition is partition and self.led_since == partition.led_since

    def is_to_be_loaded_again(self, now_ms: int) -> bool:
        """Return whether loading has failed, and the time for another attempt has come."""
        return self.state is LoadState.FAILED and now_ms - self.failed_ms >= RETRY_LOAD_MS

    def settings(self) -> ClassicSettings:
        """Return the settings of classic groups."""
        return self._parts.settings()

    def new_member_id(self, start: str) -> str:
        """Return an unused member id that begins with `start`."""
        return self._parts.new_member_id(start)

    # -- loading and unloading

    async def load(self) -> None:
        """Read the groups from the log; afterwards the state is ACTIVE, or FAILED."""
        parts = self._parts
        began = parts.now().ms
        replay = Replay(parts.readers())
        try:
            async for _ in parts.log.replay(self.index, replay.apply):
                if self.state is not LoadState.LOADING:
                    return
            group_ids = await parts.log.on_worker(replay.finish)
            if self.state is not LoadState.LOADING:
                return
            await self._take(replay, group_ids)
            await self._resume()
            await self._forget_deleted()
        except Exception as error:
            if self.state is LoadState.LOADING:
                self.fail(f"cannot be loaded: {error}")
            return
        if self.state is not LoadState.LOADING:
            return
        for marker in self._markers:
            self._decided(*marker)
        self.state = LoadState.ACTIVE
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
        """Become ACTIVE at once: the partition is empty, so there is nothing to load."""
        self.state = LoadState.ACTIVE

    async def _take(self, replay: Replay, group_ids: Iterable[str]) -> None:
        parts = self._parts
        pace = Pace()
        for group_id in group_ids:
            membership: Membership
            # Taken out one by one, so that they are freed in the same turns.
            value = replay.classic.pop(group_id, None)
            members = [] if value is None else value.members
            await pace.take(members=len(members), nbytes=sum(len(member.subscription) for member in members))
            now = parts.now()
            if group_id in replay.others:
                membership = parts.load_membership(group_id, replay.others.pop(group_id), now)
                pace.add(membership.size)
            elif value is not None:
                membership = ClassicGroup.load(group_id, value, parts.settings(), parts.new_member_id, now)
            else:
                membership = self._new_classic(group_id)
            offsets = replay.offsets.pop(group_id, GroupOffsets())
            self.groups[group_id] = Group(group_id, membership, offsets)
            for producer_id in offsets.transactions:
                self._producers.setdefault(producer_id, set()).add(group_id)

    async def _resume(self) -> None:
        """Start the session timers of all members."""
        pace = Pace()
        for group in list(self.groups.values()):
            await pace.take(members=group.membership.size)
            if self.state is not LoadState.LOADING:
                return
            if isinstance(group.membership, ClassicGroup):
                group.membership.resume(self._parts.now())
            self.settle(group)

    async def forget_topics(self, topics: frozenset[str], end: int | None) -> int:
        """Delete the offsets committed for deleted topics; return how many are deleted now.

        If the groups are being loaded, the offsets are deleted before requests about them are served.

        Args:
            end: as in `Removal.forget_topics`.
        """
        if self.state is LoadState.ACTIVE:
            return await self.removal.forget_topics(topics, end)
        if self.state is LoadState.LOADING:
            self._deleted.append((topics, self.partition.log.log_end_offset if end is None else end))
        return 0

    async def _forget_deleted(self) -> None:
        while self._deleted and self.state is LoadState.LOADING:
            await self.removal.forget_topics(*self._deleted.pop())

    def unload(self) -> None:
        """Forget the groups, since this broker no longer leads the partition; waiting requests get NOT_COORDINATOR."""
        self.state = LoadState.CLOSED
        groups, self.groups = self.groups, {}
        for group in groups.values():
            if group.timer is not None:
                group.timer.cancel()
            _release(group)
        for answer in self._owed.values():
            _answer(Answer(answer.token, NotCoordinatorError()))
        self._owed = {}
        self._producers = {}

    # -- groups

    def classic(self, group_id: str, *, create: bool) -> tuple[Group, ClassicGroup | ConsumerMembership] | None:
        """Return the group that classic members join, or None if it does not exist and `create` is false.

        With `create`, an empty group of the consumer protocol becomes a classic one. A group of the consumer protocol
        that has members serves classic members as well (KIP-848, migration).
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
        """Give an empty group the membership of the other protocol; its committed offsets stay.

        Raises:
            KafkaError: the change cannot be stored.
        """
        self.bury(group)
        _release(group)
        group.membership = membership
        self.settle(group)

    def settle(self, group: Group) -> None:
        """Carry out the effects in `membership.out`, and set the group's timer. Call this after every change."""
        # A failed store may restore the earlier membership, which has effects of its own.
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
            _tell(effect.answer, error)
            effect.done(_code(error), self._parts.now())
            return
        membership = group.membership
        future = log.acknowledged(written, self._parts.commit_timeout_ms())
        if effect.answer is not None:
            self._owed[future] = effect.answer

        def done(future: asyncio.Future[int]) -> None:
            error = future.exception()
            if error is not None:
                logger.warning("group %s was not replicated: %s", group.id, error)
                self._lost(error)
            _tell(self._owed.pop(future, None), error)
            if self.groups.get(group.id) is group and group.membership is membership:
                effect.done(None if error is None else _code_after_append(error), self._parts.now())
                self.settle(group)

        if future.done():
            done(future)
        else:
            future.add_done_callback(done)

    async def acknowledged(self, written: Appended, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        try:
            await self._parts.log.acknowledged(written, timeout_ms)
        except KafkaError as error:
            self._lost(error)
            raise

    def _lost(self, error: BaseException) -> None:
        """Load the groups again if appended records may be lost.

        After a timeout they may still be replicated. If too few replicas are in sync by then, they are replicated.
        """
        if self.state is LoadState.ACTIVE and not isinstance(
            error, RequestTimedOutError | CoordinatorNotAvailableError
        ):
            self.fail(f"are read anew, for what was appended may be lost: {error}")

    def fail(self, reason: str) -> None:
        """Forget the groups until they are loaded again, because they may differ from the log."""
        parts = self._parts
        self.unload()
        self.state = LoadState.FAILED
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
            # A group without a timer would never remove members that are gone, nor end a rebalance.
            logger.exception("timers of group %s failed; retrying", group.id)
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
        batch: bytearray | None = None,
    ) -> None:
        """Store offsets of a group, in the transaction of `producer` (id, epoch) if one is given.

        Args:
            records: the records of `offsets`, in the same order.
            batch: the records as a batch of the producer, if that was made ahead (`StateLog.encoded`).

        Raises:
            KafkaError: the member may not commit, or the offsets could not be stored.
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
            written = self._write_offsets(group, offsets, records, producer, batch)
        except (MessageTooLargeError, RecordListTooLargeError) as error:
            raise InvalidCommitOffsetSizeError from error
        await self.acknowledged(written, self._parts.commit_timeout_ms())
        self._parts.counters.offset_commits += len(offsets)

    def _write_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, Committed],
        records: Sequence[StateRecord],
        producer: tuple[int, int] | None,
        batch: bytearray | None,
    ) -> Appended:
        """Append offsets and add them to the group, in the order of the log, whether or not a request still waits."""
        log = self._parts.log
        if producer is None:
            written = log.write(self.index, records, batch=batch)
            group.offsets.appended(placed(offsets, written.first_offset), written.last_offset)
            log.when_replicated(written, partial(self._replicated, group))
        else:
            producer_id, epoch = producer
            written = log.write(
                self.index, records, producer_id=producer_id, producer_epoch=epoch, transactional=True, batch=batch
            )
            group.offsets.appended_transactional(producer_id, placed(offsets, written.first_offset))
            self._producers.setdefault(producer_id, set()).add(group.id)
        return written

    def on_marker(self, producer_id: int, committed: bool, written: Appended) -> None:
        """Commit or drop the offsets of a producer's transaction, whose marker was appended to the partition."""
        if self.state is LoadState.LOADING:
            # The marker may or may not have been read from the log; applying it twice does no harm.
            self._markers.append((producer_id, committed, written))
        elif self.state is LoadState.ACTIVE:
            self._decided(producer_id, committed, written)

    def _decided(self, producer_id: int, committed: bool, written: Appended) -> None:
        for group_id in self._producers.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.decided(producer_id, committed, written.last_offset)
                self._parts.log.when_replicated(written, partial(self._replicated, group))

    def _replicated(self, group: Group, last_offset: int) -> None:
        was_merging = group.offsets.is_merging
        group.offsets.replicated(last_offset)
        if not was_merging:
            self._merge_later(group)

    def _merge_later(self, group: Group) -> None:
        """Let others have their turn before the next offsets of a large transaction are merged."""
        if group.offsets.is_merging and self.groups.get(group.id) is group:
            self._parts.loop.call_soon(self._merge, group)

    def _merge(self, group: Group) -> None:
        group.offsets.merge()
        self._merge_later(group)

    # -- forgetting groups

    async def in_turns(self) -> AsyncIterator[Group]:
        """Yield the groups, letting requests have their turn in between; skip groups that are removed meanwhile.

        A group may have been removed and created again under the same id, and have committed offsets since. It is
        skipped as well, so that no record meant for the old group is written about the new one.
        """
        pace = Pace()
        for group in list(self.groups.values()):
            await pace.take(members=group.membership.size, offsets=len(group.offsets))
            if self.groups.get(group.id) is group:
                yield group

    def drop(self, group: Group, acks: int) -> list[Appended]:
        """Remove a group, with tombstones in the log.

        Args:
            acks: see `StateLog.write`.

        Raises:
            KafkaError: the tombstones cannot be appended; the group stays.
        """
        if self.groups.get(group.id) is not group:
            return []
        written = self.bury(group, acks)
        del self.groups[group.id]
        _release(group)
        self._arm(group)
        return written

    def bury(self, group: Group, acks: int = ACKS_ALL) -> list[Appended]:
        """Append the tombstones of a group, except those of its offsets."""
        records = group.membership.tombstones(group.id)
        batches = self.removal.batches(records, lambda record: RECORD_BYTES + len(record.key))
        return [self._parts.log.write(self.index, some, acks=acks) for some in batches]


def _release(group: Group) -> None:
    """End a group's membership; waiting requests, such as those of members that left, get NOT_COORDINATOR."""
    group.membership.unload()
    for effect in group.membership.out:
        if isinstance(effect, Answer):
            _answer(effect)
    group.membership.out.clear()


def _answer(effect: Answer) -> None:
    token = effect.token
    assert isinstance(token, asyncio.Future)
    if not token.done():
        token.set_result(effect.result)


def _tell(answer: Answer | None, error: BaseException | None) -> None:
    """Give a request its answer, or the error with which its records were not stored."""
    if answer is not None:
        _answer(answer if error is None else Answer(answer.token, store_error(_code(error))))


def _code_after_append(error: BaseException) -> ErrorCode:
    """Return the error for `Store.done`. With too few replicas in sync the log has the records, as after a timeout."""
    return _code(RequestTimedOutError() if isinstance(error, CoordinatorNotAvailableError) else error)


def _code(error: BaseException) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else NotCoordinatorError.code

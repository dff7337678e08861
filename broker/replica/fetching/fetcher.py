"""One connection of followers to a leader: truncates, fetches and appends, over and over, as in Kafka 3.9.

Each answer is used only for a partition that is still followed as it was when the request was sent. An error of a
partition delays that partition; an error of the connection delays all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from broker.config.protocol_version import Feature, ProtocolVersion
from broker.metadata.model import NO_TOPIC_ID
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError, LinkRefusedError
from broker.replica.fetching.following import Following
from broker.replica.fetching.sessions import LAST_EPOCH_VERSION, TOPIC_ID_VERSION, FollowerSession, PartitionKey, Wanted
from broker.replica.manager import ReplicaManager
from broker.replica.roles import UNDEFINED
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import ErrorCode, FencedLeaderEpochError, KafkaError, KafkaStorageError, error_for
from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger = logging.getLogger(__name__)

LATEST, EARLIEST = -1, -2
REPLICA_STATE_VERSION = 15
"""From this version on a follower names itself in `replica_state`."""
DOUBT_S = 10.0
"""How long a leader may be taken for dead before the controller says so."""
LOOK_S = 30.0
"""After this time all partitions are looked at again, for changes of which nobody tells: topic ids, log start offsets.
"""
TURN_BYTES = 1 << 20
"""After so many bytes were appended, other work of the loop has its turn."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How followers fetch."""

    version: ProtocolVersion
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    """Of one answer."""
    partition_max_bytes: int
    backoff: float
    """The longest pause after an error, in seconds."""


class Fetcher:
    """Fetches partitions from one leader over one connection.

    Args:
        leader: the id of the leader, for the log.
        link: the connection.
        replicas: the partitions of this broker.
        settings: returns how to fetch.
        broker_epoch: returns the epoch of this broker.
    """

    def __init__(
        self,
        leader: int,
        link: Link,
        replicas: ReplicaManager,
        settings: Callable[[], FetchSettings],
        broker_epoch: Callable[[], int],
    ) -> None:
        self._leader = leader
        self._link = link
        self._replicas = replicas
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._loop = replicas.runtime.loop
        self._session = FollowerSession()
        self._following: dict[PartitionKey, Following] = {}
        self._asked: dict[PartitionKey, Following] = {}
        """The partitions of the last request, as they were followed then."""
        self._touched: dict[PartitionKey, None] = {}
        """The partitions that the next request may ask for otherwise than the last one."""
        self._unsettled: dict[PartitionKey, Following] = {}
        """The partitions that are to be truncated, or are delayed."""
        self._without_id: set[PartitionKey] = set()
        """The partitions of the last request whose topic has no id."""
        self._topics: dict[uuid.UUID, str] = {}
        """The names of the topics of the last request, by their ids."""
        self._looked_at = float("-inf")
        """When all partitions were looked at."""
        self._looked_with: FetchSettings | None = None
        self._held_back = False
        """Whether the last request left out partitions for their throttle."""
        self._changed = asyncio.Event()
        self._lost_at: float | None = None
        self._reconnected_at = float("-inf")
        link.on_lost = self._note_loss
        self._task = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._following)

    @property
    def is_leader_doubtful(self) -> bool:
        """Whether the leader's process may be dead: it ended the connection, and there is no other one yet.

        The doubt lasts `DOUBT_S` at most; by then the controller must have noticed, too. It ends when an attempt to
        connect fails for another reason than that nobody listens at the leader's address.
        """
        if self._lost_at is None or self._link.connected:
            return False
        return self._now() < self._lost_at + DOUBT_S

    def get(self, key: PartitionKey) -> Following | None:
        """Return what is known of a partition that is fetched here."""
        return self._following.get(key)

    def follows(self) -> Iterable[Following]:
        """Return the partitions that are fetched here."""
        return self._following.values()

    def add(self, following: Following) -> None:
        """Fetch a partition from now on."""
        self._following[following.partition.key] = following
        self._touch(following)
        self._changed.set()

    def remove(self, key: PartitionKey) -> None:
        """Fetch a partition no more."""
        self._following.pop(key, None)
        self._touched[key] = None

    async def close(self) -> None:
        """End the work and the connection."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._link.close()

    # -- the work

    async def _run(self) -> None:
        while True:
            try:
                await self._truncate()
                await self._fetch()
            except LinkError as error:
                self._session.begin_again()
                if not await self._reconnects():
                    self._delay_all(str(error))
            except Exception as error:
                logger.exception("fetching from broker %d failed; it goes on after a pause", self._leader)
                self._session.begin_again()
                self._delay_all(f"fetching failed: {error!r}")

    def _note_loss(self) -> None:
        self._lost_at = self._now()

    async def _reconnects(self) -> bool:
        """After a connection that was lost, see at once whether the leader still listens; return whether it does."""
        if self._lost_at is None:
            return False
        try:
            await self._link.connect()
        except LinkRefusedError:
            return False
        except LinkError:
            # It may be slow, or the network: clients may reach the leader all the same.
            self._lost_at = None
            return False
        self._lost_at, before = None, self._reconnected_at
        self._reconnected_at = self._now()
        # A leader that ends each connection is asked again after pauses.
        return self._reconnected_at > before + self._settings().backoff

    def _now(self) -> float:
        return self._loop.time()

    def _touch(self, following: Following) -> None:
        """Look at a partition again before the next request."""
        self._touched[following.partition.key] = None
        if following.truncating or following.delayed_until > self._now():
            self._unsettled[following.partition.key] = following

    def _settle(self) -> list[Following]:
        """Return the partitions that are to be truncated and not delayed; ask for those that are neither any more."""
        now, truncating = self._now(), []
        for key, each in list(self._unsettled.items()):
            if self._following.get(key) is not each or not each.is_current:
                del self._unsettled[key]
            elif each.delayed_until <= now:
                if each.truncating:
                    truncating.append(each)
                else:
                    del self._unsettled[key]
                    self._touched[key] = None
        return truncating

    def _delay(self, following: Following, why: str) -> None:
        self._note_delay(following, why)
        self._touch(following)

    def _note_delay(self, following: Following, why: str) -> None:
        if following.delay(self._now(), self._settings().backoff, why):
            topic, index = following.partition.key
            logger.info("%s-%d is not fetched from broker %d at present: %s", topic, index, self._leader, why)

    def _delay_all(self, why: str) -> None:
        news = [each for each in self._following.values() if each.delay(self._now(), self._settings().backoff, why)]
        for each in self._following.values():
            self._touch(each)
        if news:
            logger.warning("%d partitions are not fetched from broker %d at present: %s", len(news), self._leader, why)

    def _current(self) -> list[Following]:
        """Return the partitions that are still followed; the others are removed when their new role is told of."""
        return [each for each in self._following.values() if each.is_current]

    async def _wait(self, partitions: list[Following]) -> None:
        """Wait for another partition, or the end of the shortest delay."""
        self._changed.clear()
        now = self._now()
        delays = [each.delayed_until for each in partitions if each.delayed_until > now]
        # A partition that is neither due nor delayed waits for its throttle.
        pause = min(delays, default=now + self._settings().backoff) - now if partitions else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._changed.wait()

    # -- fetching

    async def _fetch(self) -> None:
        settings = self._settings()
        truncating = self._settle()
        version = self._look(settings)
        if not self._asked:
            if not truncating:
                await self._wait(self._current())
            return
        request = self._session.build(version)
        request.max_wait_ms, request.min_bytes = settings.max_wait_ms, settings.min_bytes
        request.max_bytes = settings.max_bytes
        self._name(request, version)
        response: FetchResponse = await self._link.request(request, max_version=version, min_version=version)
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session.forget()
            return
        if code is not ErrorCode.NONE:
            self._session.begin_again()
            self._delay_all(f"the leader answers {code.name}")
            return
        self._session.answered(response.session_id)
        await self._take(response)

    def _look(self, settings: FetchSettings) -> int:
        """Look at the partitions that may have changed, or at all; return the version of the next request."""
        now, held_back = self._now(), self._replicas.follower_quota.is_exceeded
        keys = self._touched
        if held_back or self._held_back or settings != self._looked_with or now >= self._looked_at + LOOK_S:
            keys = dict.fromkeys([*self._following, *self._asked])
            self._looked_at, self._looked_with = now, settings
            self._topics.clear()
        self._held_back, self._touched = held_back, {}
        version = settings.version.request_version(ApiKey.FETCH)
        for key in keys:
            each = self._following.get(key)
            if each is None or not each.is_current or not each.is_due(now) or (held_back and each.may_be_held_back):
                self._asked.pop(key, None)
                self._without_id.discard(key)
                self._session.want(key, None)
                continue
            self._asked[key] = each
            if each.topic_id == NO_TOPIC_ID:
                self._without_id.add(key)
            else:
                self._without_id.discard(key)
                self._topics[each.topic_id] = key[0]
            wanted = Wanted(
                each.topic_id,
                each.offset,
                each.partition.log.log_start_offset,
                settings.partition_max_bytes,
                each.epoch,
                each.fetched_epoch if version >= LAST_EPOCH_VERSION else UNDEFINED,
            )
            self._session.want(key, wanted)
        return min(version, TOPIC_ID_VERSION - 1) if self._without_id else version

    def _name(self, request: FetchRequest, version: int) -> None:
        if version >= REPLICA_STATE_VERSION:
            state = ReplicaState(replica_id=self._replicas.broker_id, replica_epoch=self._broker_epoch())
            request.replica_state = state
        else:
            request.replica_id = self._replicas.broker_id

    async def _take(self, response: FetchResponse) -> None:
        out_of_range: list[Following] = []
        flushing: list[Following] = []
        diverged = False
        taken = 0
        for topic in response.responses:
            name = topic.topic or self._topics.get(topic.topic_id, "")
            for data in topic.partitions:
                following = self._asked.get((name, data.partition_index))
                # The role may have changed since the request was sent.
                if following is None or not self._is_usable(following):
                    continue
                self._touched[following.partition.key] = None
                code = ErrorCode.of(data.error_code)
                if code is ErrorCode.NONE:
                    if data.diverging_epoch.epoch >= 0:
                        diverged |= self._diverge(following, data)
                    else:
                        taken += self._append(following, data)
                        if following.partition.must_sync:
                            flushing.append(following)
                elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(following)
                else:
                    # FENCED_LEADER_EPOCH, too: the controller's word on the new epoch is on its way, or was lost.
                    self._delay(following, f"the leader answers {code.name}")
                if taken > TURN_BYTES:
                    taken = 0
                    await asyncio.sleep(0)
        if diverged:
            await self._lower_recovery_points()
        for following in flushing:
            # The next fetch tells the leader that the records are safe here.
            await self._replicas.flushes.until_ended(following.partition)
        for following in out_of_range:
            await self._reset(following)

    def _is_usable(self, following: Following) -> bool:
        key = following.partition.key
        return (
            self._following.get(key) is following
            and following.is_current
            and following.offset == self._session.wanted[key].offset
            and not following.truncating
        )

    def _append(self, following: Following, data: Any) -> int:
        """Append what was fetched of one partition; return its size."""
        partition = following.partition
        records = memoryview(data.records or b"")
        if following.offset != partition.log.log_end_offset:
            following.truncated(done=True)
            self._touch(following)
            return 0
        try:
            self._replicas.append_as_follower(
                partition, records, following.epoch, data.high_watermark, data.log_start_offset
            )
        except FencedLeaderEpochError:
            # The role has changed.
            return 0
        except KafkaError as error:
            self._retry(following, error)
            return 0
        following.caught(data.high_watermark)
        if partition.throttled_follower:
            self._replicas.follower_quota.record(len(records))
        return len(records)

    def _retry(self, following: Following, error: KafkaError) -> None:
        """Try a partition again after a pause, from where its log ends then."""
        self._delay(following, f"what was fetched cannot be appended: {error}")
        log = following.partition.log
        following.offset, following.fetched_epoch = log.log_end_offset, log.latest_epoch

    # -- truncating

    def _diverge(self, following: Following, data: Any) -> bool:
        """Truncate a log that has diverged; return whether there was anything to remove."""
        found = data.diverging_epoch
        offset, _ = following.partition.truncation(found.epoch, found.end_offset)
        return self._truncate_to(following, offset, done=True, why=f"epoch {found.epoch} ends at {found.end_offset}")

    def _truncate_to(self, following: Following, offset: int, *, done: bool, why: str) -> bool:
        partition = following.partition
        log = partition.log
        end = log.log_end_offset
        try:
            has_removed = log.truncate_to(offset, now_ms=self._replicas.runtime.now_ms())
        except KafkaStorageError as error:
            self._delay(following, f"the log cannot be truncated: {error}")
            return False
        if has_removed:
            logger.info(
                "%s-%d is truncated from %d to %d, as broker %d says that %s",
                *partition.key, end, log.log_end_offset, self._leader, why,
            )  # fmt: skip
        following.truncated(done=done)
        self._touch(following)
        return has_removed

    async def _lower_recovery_points(self) -> None:
        # An older, higher recovery point would vouch for records that are appended later.
        await self._replicas.runtime.workers.run(self._replicas.logs.checkpoints.lower_recovery_points)

    async def _truncate(self) -> None:
        """Make the logs that need it agree with the leader's, before anything is fetched."""
        version = self._settings().version
        has_removed = False
        asking: list[Following] = []
        for each in self._settle():
            if version.has(Feature.EPOCH_TRUNCATION) and each.partition.log.latest_epoch != UNDEFINED:
                asking.append(each)
            else:
                why = "only what is below the high watermark is the leader's"
                has_removed |= self._truncate_to(each, each.offset, done=True, why=why)
        if asking:
            has_removed |= await self._ask_for_epochs(asking, version.request_version(ApiKey.OFFSET_FOR_LEADER_EPOCH))
        if has_removed:
            await self._lower_recovery_points()

    async def _ask_for_epochs(self, asking: list[Following], version: int) -> bool:
        """Truncate by where the leader says that epochs end (KIP-101); return whether anything was removed."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for each in asking:
            topic, index = each.partition.key
            topics.setdefault(topic, OffsetForLeaderTopic(topic=topic)).partitions.append(
                OffsetForLeaderPartition(
                    partition=index, current_leader_epoch=each.epoch, leader_epoch=each.partition.log.latest_epoch
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=self._replicas.broker_id, topics=list(topics.values()))
        response = await self._link.request(request, max_version=version, min_version=version)
        asked = {each.partition.key: each for each in asking}
        has_removed = False
        for told in response.topics:
            for found in told.partitions:
                following = asked.get((told.topic, found.partition))
                # An answer in an earlier epoch says nothing about this one (KAFKA-7786).
                if following is None or self._following.get(following.partition.key) is not following:
                    continue
                if not following.is_current:
                    continue
                if found.error_code:
                    self._delay(following, f"the leader answers {ErrorCode.of(found.error_code).name}")
                    continue
                offset, done = following.partition.truncation(found.leader_epoch, found.end_offset)
                why = f"epoch {found.leader_epoch} ends at {found.end_offset}"
                has_removed |= self._truncate_to(following, offset, done=done, why=why)
        return has_removed

    async def _reset(self, following: Following) -> None:
        """Find where to go on when the leader does not have the offset that was asked for.

        A leader that was elected although it was not in sync has a shorter log. One that has removed records has a
        later start.
        """
        partition = following.partition
        log = partition.log
        try:
            end = await self._offset_of_leader(following, LATEST)
            start = (
                log.log_end_offset if end < log.log_end_offset else await self._offset_of_leader(following, EARLIEST)
            )
        except KafkaError as error:
            self._delay(following, f"the offset {following.offset} is out of the leader's range: {error}")
            return
        if self._following.get(partition.key) is not following or not following.is_current:
            return
        if end < log.log_end_offset:
            if self._truncate_to(following, end, done=True, why=f"its log ends at {end}"):
                await self._lower_recovery_points()
        elif start > log.log_end_offset:
            logger.warning("%s-%d begins anew at %d, where its leader's log begins", *partition.key, start)
            try:
                log.truncate_fully_and_start_at(start, now_ms=self._replicas.runtime.now_ms())
            except KafkaStorageError as error:
                self._delay(following, f"the log cannot begin anew: {error}")
                return
            following.truncated(done=True)
            self._touch(following)
            await self._lower_recovery_points()
        else:
            # The leader has the offset again, or asks for another truncation.
            following.truncated(done=True)
            following.delay(self._now(), self._settings().backoff, following.trouble)
            self._touch(following)

    async def _offset_of_leader(self, following: Following, timestamp: int) -> int:
        """Ask for the end, or the start, of the leader's log.

        Raises:
            KafkaError: the leader refuses.
        """
        topic, index = following.partition.key
        version = self._settings().version.request_version(ApiKey.LIST_OFFSETS)
        wanted = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=following.epoch, timestamp=timestamp, max_num_offsets=1
        )
        request = ListOffsetsRequest(
            replica_id=self._replicas.broker_id, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        )
        response = await self._link.request(request, max_version=version, min_version=version)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise error_for(ErrorCode.of(found.error_code))
        offset: int = found.offset if version > 0 else found.old_style_offsets[0]
        return offset

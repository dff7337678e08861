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

from broker.config.protocol_version import ProtocolVersion
from broker.metadata.model import NO_TOPIC_ID
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError, LinkRefusedError
from broker.replica.divergence import UNDEFINED
from broker.replica.fetching.following import Following
from broker.replica.fetching.truncation import TURN_S, LogTruncation
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import ErrorCode, FencedLeaderEpochError, KafkaError
from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from kafkalog.protocol.wire.fetch_session import (
    LAST_EPOCH_VERSION,
    TOPIC_ID_VERSION,
    FetchSessionHandler,
    PartitionKey,
    Wanted,
)

logger = logging.getLogger(__name__)

REPLICA_STATE_VERSION = 15
"""From this version on a follower names itself in `replica_state`."""
DOUBT_S = 10.0
"""The longest time that a leader may be taken for dead before the controller says so."""
LOOK_S = 30.0
"""After this time all partitions are looked at again. Changes of topic ids and log start offsets are found only so."""
NAMED = 5
"""The number of partitions that one line of the broker's log names."""
TURN_BYTES = 1 << 20
"""The number of appended bytes after which other work of the loop has its turn."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Settings of the followers' fetches."""

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
        self._session = FetchSessionHandler()
        self._truncation = LogTruncation(
            leader, link, replicas, lambda: settings().version, self._is_followed, self._touch, self._delay
        )
        self._following: dict[PartitionKey, Following] = {}
        self._asked: dict[PartitionKey, Following] = {}
        """The partitions of the last request, as they were followed then."""
        self._touched: dict[PartitionKey, None] = {}
        """The partitions that the next request may ask for otherwise than the last one."""
        self._unsettled: dict[PartitionKey, Following] = {}
        """The partitions that are to be truncated, or are delayed."""
        self._longest_pause = settings().backoff
        self._news: dict[str, list[PartitionKey]] = {}
        """The partitions that are delayed for another reason than before, by the reason, until they are logged."""
        self._without_id: set[PartitionKey] = set()
        """The partitions of the last request whose topic has no id."""
        self._topics: dict[uuid.UUID, str] = {}
        """The names of the topics of the last request, by their ids."""
        self._looked_at = float("-inf")
        """The time of the last look at all partitions."""
        self._looked_with: FetchSettings | None = None
        self._held_back = False
        """True if the last request left out partitions for their throttle."""
        self._changed = asyncio.Event()
        self._lost_at: float | None = None
        self._reconnected_at = float("-inf")
        link.on_lost = self._note_loss
        self._task = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._following)

    @property
    def is_leader_doubtful(self) -> bool:
        """Return whether the leader's process may be dead: it ended the connection, and there is no other one yet.

        The doubt lasts `DOUBT_S` at most; by then the controller must have noticed, too. It ends when an attempt to
        connect fails, unless the leader's address refuses the connection.
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
        """Fetch a partition no more. Its log may have been truncated, and this broker may lead it from now on."""
        self._following.pop(key, None)
        self._touched[key] = None
        self._truncation.lower_at_once()

    async def close(self) -> None:
        """End the work and the connection."""
        # The partitions may be fetched over another connection soon, and the end of the task would not wait for this.
        self._truncation.lower_at_once()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._link.close()

    # -- the work

    async def _run(self) -> None:
        while True:
            try:
                self._longest_pause = self._settings().backoff
                await self._truncation.truncate(self._settle())
                self._tell()
                await self._fetch()
                self._tell()
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
        return self._reconnected_at > before + self._longest_pause

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
            if self._following.get(key) is not each or not each.is_current or each.has_failed:
                del self._unsettled[key]
            elif each.delayed_until <= now:
                if each.truncating:
                    truncating.append(each)
                else:
                    del self._unsettled[key]
                    self._touched[key] = None
        return truncating

    def _delay(self, following: Following, why: str) -> None:
        if following.delay(self._now(), self._longest_pause, why):
            self._news.setdefault(why, []).append(following.partition.key)
        self._touch(following)

    def _delay_all(self, why: str) -> None:
        now = self._now()
        news = [each for each in self._following.values() if each.delay(now, self._longest_pause, why)]
        for each in self._following.values():
            self._touch(each)
        if news:
            logger.warning("%d partitions are not fetched from broker %d at present: %s", len(news), self._leader, why)

    def _tell(self) -> None:
        """Log which partitions are delayed. After a failover there may be thousands, for the same reason."""
        news, self._news = self._news, {}
        for why, keys in news.items():
            named = ", ".join(f"{topic}-{index}" for topic, index in keys[:NAMED])
            if len(keys) > NAMED:
                named += f" and {len(keys) - NAMED} more"
            verb = "is" if len(keys) == 1 else "are"
            logger.info("%s %s not fetched from broker %d at present: %s", named, verb, self._leader, why)

    def _current(self) -> list[Following]:
        """Return the partitions that are still followed. The others are removed when their new role is known."""
        return [each for each in self._following.values() if each.is_current and not each.has_failed]

    async def _wait(self, partitions: list[Following]) -> None:
        """Wait for another partition, or the end of the shortest delay."""
        self._changed.clear()
        now = self._now()
        delays = [each.delayed_until for each in partitions if each.delayed_until > now]
        # A partition that is neither due nor delayed waits for its throttle.
        pause = min(delays, default=now + self._longest_pause) - now if partitions else None
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
        try:
            await self._take_each(response, out_of_range, flushing)
        finally:
            await self._truncation.lower_recovery_points()
        for following in flushing:
            # The next fetch tells the leader that the records are safe here.
            await self._replicas.flushes.until_ended(following.partition)
        for following in out_of_range:
            await self._truncation.reset(following)

    async def _take_each(
        self, response: FetchResponse, out_of_range: list[Following], flushing: list[Following]
    ) -> None:
        """Append what was fetched, or truncate; add to the lists what needs more.

        Other work of the loop has its turn after `TURN_BYTES`, or after `TURN_S`: a leader may have one small batch in
        each of thousands of partitions.
        """
        taken, began = 0, self._now()
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
                        await self._truncation.diverge(following, data.diverging_epoch)
                        await self._truncation.end_turn()
                    else:
                        taken += self._append(following, data)
                        if following.partition.must_sync:
                            flushing.append(following)
                elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(following)
                else:
                    # FENCED_LEADER_EPOCH, too: the controller's word on the new epoch is on its way, or was lost.
                    self._delay(following, f"the leader answers {code.name}")
                if taken > TURN_BYTES or self._now() > began + TURN_S:
                    await self._truncation.end_turn(at_once=True)
                    taken, began = 0, self._now()

    def _is_followed(self, following: Following) -> bool:
        """Return whether a partition is still followed as it was when a request was sent."""
        return self._following.get(following.partition.key) is following and following.is_current

    def _is_usable(self, following: Following) -> bool:
        """Return whether what was fetched of a partition may be appended."""
        return (
            self._is_followed(following)
            and following.offset == self._session.wanted[following.partition.key].offset
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
        if following.is_unproven(data.log_start_offset) and not self._truncation.begin_anew(
            following, data.log_start_offset
        ):
            return 0
        try:
            self._replicas.append_as_follower(
                partition, records, following.epoch, data.high_watermark, data.log_start_offset
            )
        except FencedLeaderEpochError:
            # The role has changed.
            return 0
        except KafkaError as error:
            self._retry(following, str(error))
            return 0
        except Exception as error:
            # A defect that one log meets must not keep the others from being fetched.
            logger.exception("what was fetched of %s-%d cannot be appended", *partition.key)
            self._retry(following, repr(error))
            return 0
        following.caught(data.high_watermark)
        if partition.throttled_follower:
            self._replicas.follower_quota.record(len(records))
        return len(records)

    def _retry(self, following: Following, why: str) -> None:
        """Try a partition again after a pause, from where its log ends then."""
        self._delay(following, f"what was fetched cannot be appended: {why}")
        log = following.partition.log
        following.offset, following.fetched_epoch = log.log_end_offset, log.latest_epoch

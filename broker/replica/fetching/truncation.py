"""Truncates the logs of followers until they agree with the leader's, as in Kafka 3.9.

The leader tells where they differ: by the ends of its leader epochs (KIP-101), in the answer to a fetch (KIP-595), or
by where its log begins and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from broker.config.protocol_version import Feature, ProtocolVersion
from broker.log.log import Log
from broker.log.truncation_plan import TruncationPlan
from broker.net.links.link import Link
from broker.replica.divergence import UNDEFINED
from broker.replica.fetching.following import Following
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import CorruptMessageError, ErrorCode, KafkaError, KafkaStorageError, error_for
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

logger = logging.getLogger(__name__)

LATEST, EARLIEST = -1, -2
REBUILD_STEPS = 8
"""Workers rebuild damaged indexes in so many steps at most. Only a log that does not read needs more."""
TURN_S = 0.02
"""Truncations hold the event loop for about this long, or for as long as one takes. A broker that comes back after a
crash may have many to do."""


class EpochEnd(Protocol):
    """The last epoch that a follower and its leader have in common, and where it ends in the leader's log."""

    epoch: int
    end_offset: int


class LogTruncation:
    """Truncates the logs of partitions that are followed over one connection.

    Args:
        leader: the id of the leader, for the log.
        link: the connection.
        replicas: the partitions of this broker.
        version: returns the version of the protocol between brokers.
        is_followed: returns whether a partition is still followed as it was when a request was sent.
        changed: called with a partition after its log was truncated.
        delay: called with a partition that cannot go on at present, and the reason.
    """

    def __init__(
        self,
        leader: int,
        link: Link,
        replicas: ReplicaManager,
        version: Callable[[], ProtocolVersion],
        is_followed: Callable[[Following], bool],
        changed: Callable[[Following], None],
        delay: Callable[[Following, str], None],
    ) -> None:
        self._leader = leader
        self._link = link
        self._replicas = replicas
        self._version = version
        self._is_followed = is_followed
        self._changed = changed
        self._delay = delay
        self._has_removed = False
        """True if a log was truncated since the recovery points were written."""
        self._held = 0.0
        """Seconds for which truncations have held the event loop in this turn."""

    async def truncate(self, partitions: list[Following]) -> None:
        """Make the logs of partitions agree with the leader's, before anything is fetched.

        Raises:
            LinkError: the leader cannot be asked.
        """
        version = self._version()
        asking: list[Following] = []
        try:
            for each in partitions:
                if version.has(Feature.EPOCH_TRUNCATION) and each.partition.log.latest_epoch != UNDEFINED:
                    asking.append(each)
                elif self._is_followed(each):
                    why = "only what is below the high watermark is the leader's"
                    await self._truncate_to(each, each.offset, done=True, why=why)
                    await self.end_turn()
            if asking:
                # The leader may take long to answer.
                await self.lower_recovery_points()
                await self._ask_for_epochs(asking, version.request_version(ApiKey.OFFSET_FOR_LEADER_EPOCH))
        finally:
            await self.lower_recovery_points()

    async def diverge(self, following: Following, found: EpochEnd) -> None:
        """Truncate a log that has diverged.

        `end_turn` has to be called before the next one, and `lower_recovery_points` after the last one.
        """
        offset, _ = following.partition.truncation(found.epoch, found.end_offset)
        await self._truncate_to(following, offset, done=True, why=f"epoch {found.epoch} ends at {found.end_offset}")

    async def end_turn(self, *, at_once: bool = False) -> None:
        """Let other work run if truncations have held the loop for `TURN_S`. Any partition may have changed then.

        The recovery points are written first of all. If a truncated log has another leader before that, they are
        written at that moment; see `lower_at_once`.

        Args:
            at_once: other work has to run in any case.
        """
        if not at_once and self._held < TURN_S:
            return
        self._held = 0.0
        if self._has_removed:
            await self.lower_recovery_points()
        else:
            await asyncio.sleep(0)

    async def lower_recovery_points(self) -> None:
        """Write the recovery points if a log has become shorter.

        An older, higher recovery point would vouch for records that are appended later.
        """
        if not self._has_removed:
            return
        await self._replicas.runtime.workers.run(self._replicas.logs.checkpoints.lower_recovery_points)
        # Only now: if this task is cancelled before, the work may never begin, and another call has to do it.
        self._has_removed = False

    def lower_at_once(self) -> None:
        """Write the recovery points if a log has become shorter, on the event loop, as no worker may be free.

        Call it before others may append to a log that was followed here.
        """
        if self._has_removed:
            self._replicas.logs.checkpoints.lower_recovery_points()
            self._has_removed = False

    async def reset(self, following: Following) -> None:
        """Find where to go on when the leader does not have the offset that was asked for.

        A leader that was elected although it was not in sync has a shorter log. One that has removed records has a
        later start.

        Raises:
            LinkError: the leader cannot be asked.
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
        if not self._is_followed(following):
            return
        if end < log.log_end_offset:
            await self._truncate_to(following, end, done=True, why=f"its log ends at {end}")
            await self.lower_recovery_points()
        elif start > log.log_end_offset:
            self.begin_anew(following, start)
            await self.lower_recovery_points()
        else:
            # The leader has the offset again, or asks for another truncation.
            following.truncated(done=True)
            self._delay(following, following.trouble)

    def begin_anew(self, following: Following, start: int) -> bool:
        """Remove all records of a log whose leader's log begins at its end or later; return whether that was done.

        `lower_recovery_points` has to be called later.
        """
        partition = following.partition
        logger.warning("%s-%d begins anew at %d, where its leader's log begins", *partition.key, start)
        try:
            partition.log.truncate_fully_and_start_at(start, now_ms=self._replicas.runtime.now_ms())
        except KafkaStorageError as error:
            self._delay(following, f"the log cannot begin anew: {error}")
            return False
        except Exception as error:
            # A defect that one log meets must not keep the others from being followed.
            logger.exception("the log of %s-%d cannot begin anew", *partition.key)
            self._delay(following, f"the log cannot begin anew: {error!r}")
            return False
        self._has_removed = True
        following.truncated(done=True)
        self._changed(following)
        return True

    async def _truncate_to(self, following: Following, offset: int, *, done: bool, why: str) -> None:
        """Truncate a log. A worker reads, and flushes, what takes long before, and any role may change meanwhile.

        The recovery points are written before the worker begins: logs that are truncated already may have another
        leader before it has ended.
        """
        log, now_ms, workers = following.partition.log, self._replicas.runtime.now_ms, self._replicas.runtime.workers
        try:
            if not await self._rebuild_indexes(following, offset):
                return
            with self._holding():
                planned = log.plan_truncation(offset, now_ms=now_ms())
            if planned is not None and not (planned.is_quick and planned.is_flushed):
                await self.lower_recovery_points()
                if not self._is_followed(following):
                    return
                try:
                    await workers.run(_prepare, log, planned)
                except OSError:
                    # The directory may have another name by now. If not, reading it once more tells what is wrong.
                    planned = None
                if not self._is_followed(following):
                    return
            self._truncate_now(following, offset, planned, done=done, why=why)
        except KafkaStorageError as error:
            # A flush fails, too, if the log was deleted meanwhile.
            if self._is_followed(following):
                self._delay(following, f"the log cannot be truncated: {error}")
        except CorruptMessageError as error:
            self._fail(following, error)
        except Exception as error:
            # A defect that one log meets must not keep the others from being followed.
            logger.exception("the log of %s-%d cannot be truncated", *following.partition.key)
            self._delay(following, f"the log cannot be truncated: {error!r}")

    async def _rebuild_indexes(self, following: Following, offset: int) -> bool:
        """Have a worker rebuild damaged indexes before a truncation is planned: that may read the whole log.

        Return whether the partition is still followed.
        """
        for _ in range(REBUILD_STEPS):
            with self._holding():
                step = following.partition.log.missing_for_truncation(offset)
            if step is None:
                break
            await self.lower_recovery_points()
            if not self._is_followed(following):
                return False
            try:
                await self._replicas.runtime.workers.run(step)
            except OSError:
                # The plan meets the same error, and reports it.
                break
            if not self._is_followed(following):
                return False
        return True

    def _truncate_now(
        self, following: Following, offset: int, planned: TruncationPlan | None, *, done: bool, why: str
    ) -> None:
        partition = following.partition
        log, end = partition.log, partition.log.log_end_offset
        with self._holding():
            has_removed = log.truncate_to(offset, now_ms=self._replicas.runtime.now_ms(), planned=planned)
        if has_removed:
            self._has_removed = True
            logger.info(
                "%s-%d is truncated from %d to %d, as broker %d says that %s",
                *partition.key, end, log.log_end_offset, self._leader, why,
            )  # fmt: skip
        following.truncated(done=done)
        self._changed(following)

    @contextlib.contextmanager
    def _holding(self) -> Iterator[None]:
        """Count the time for which a block holds the event loop."""
        began = self._replicas.runtime.loop.time()
        try:
            yield
        finally:
            self._held += self._replicas.runtime.loop.time() - began

    def _fail(self, following: Following, error: CorruptMessageError) -> None:
        """Give a partition up whose log is damaged. Another attempt would meet the same bytes."""
        following.fail(f"the log cannot be truncated: {error}")
        self._changed(following)
        logger.error(
            "%s-%d is not fetched from broker %d any more, because its log is damaged: %s. Nothing was removed. It is "
            "tried again in the next leader epoch or after a start. To have the partition copied from its leader anew, "
            "stop this broker, move the directory %s away and start. `kafkalog log verify` tells what is damaged",
            *following.partition.key, self._leader, error, following.partition.log.dir,
        )  # fmt: skip

    async def _ask_for_epochs(self, asking: list[Following], version: int) -> None:
        """Truncate by where the leader says that epochs end (KIP-101)."""
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
        for topic_result in response.topics:
            for found in topic_result.partitions:
                following = asked.get((topic_result.topic, found.partition))
                # An answer in an earlier epoch says nothing about this one (KAFKA-7786).
                if following is None or not self._is_followed(following):
                    continue
                if found.error_code:
                    self._delay(following, f"the leader answers {ErrorCode.of(found.error_code).name}")
                    continue
                offset, done = following.partition.truncation(found.leader_epoch, found.end_offset)
                why = f"epoch {found.leader_epoch} ends at {found.end_offset}"
                await self._truncate_to(following, offset, done=done, why=why)
                await self.end_turn()

    async def _offset_of_leader(self, following: Following, timestamp: int) -> int:
        """Ask for the end, or the start, of the leader's log.

        Raises:
            KafkaError: the leader refuses.
        """
        topic, index = following.partition.key
        version = self._version().request_version(ApiKey.LIST_OFFSETS)
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


def _prepare(log: Log, planned: TruncationPlan) -> None:
    """Read and flush what a truncation would have to wait for. On a worker's thread.

    Raises:
        KafkaStorageError: the log is offline.
        OSError: a file cannot be read.
    """
    if not planned.is_flushed:
        try:
            log.flush(planned.cut.offset)
        except KafkaStorageError:
            # Indexes for which the disk has no room are no reason to wait: the truncation makes room.
            if log.offline is not None:
                raise
    if not planned.is_quick:
        planned.read()

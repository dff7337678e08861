"""Transactional producers, and groups that commit offsets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from kafkalog.protocol.errors import ErrorCode, error_for
from kafkalog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalog.protocol.messages.end_txn import EndTxnRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.cluster.clients.client import FAILURES, GROUP, PAUSE_S, TRANSACTION, Client, check
from tests.simulation.cluster.clients.history import ACKS_ALL, Sent
from tests.support.wire import batch, produce_request

TIMEOUT_MS = 20_000
SENDS = 20
NOTHING = -1
"""The offset of a group that has committed none."""


class Transactor:
    """Writes one value to all partitions of a topic in each transaction.

    Attributes:
        committed: the values whose commit was acknowledged.
        unknown: those whose commit was sent and not answered.
    """

    def __init__(self, client: Client, topic: str, partitions: int, ended: asyncio.Event) -> None:
        self.client = client
        self.id = client.name
        self._topic = topic
        self._partitions = partitions
        self._ended = ended
        self.committed: set[str] = set()
        self.unknown: set[str] = set()
        self._producer: tuple[int, int] | None = None
        self._sequences: Counter[int] = Counter()
        self._number = 0

    async def work(self) -> None:
        """Transact until the end; then leave nothing open."""
        while not self._ended.is_set():
            await self.client.pause(3 * PAUSE_S)
            await self.transact_once()
        await self.close_open()

    async def transact_once(self) -> bool:
        """Try one transaction; return whether all of it was answered."""
        try:
            await self._transact()
        except FAILURES:
            # Whatever is open is aborted by the next initialization.
            self._producer = None
            await self.client.pause()
            return False
        return True

    async def close_open(self) -> None:
        """Have what is open aborted."""
        self._producer = None
        while self._producer is None:
            try:
                await self._initialize()
            except FAILURES:
                await self.client.pause()

    async def _initialize(self) -> None:
        coordinator = await self.client.coordinator(TRANSACTION, self.id)
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self.client.ask(coordinator, request, 4)
        check(answer.error_code)
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    async def _transact(self) -> None:
        if self._producer is None:
            await self._initialize()
        assert self._producer is not None
        self._number += 1
        value, commits = f"{self.id}:{self._number}", self.client.chance.random() < 0.7
        await self._add()
        for index in range(self._partitions):
            await self._write(index, value.encode())
        coordinator = await self.client.coordinator(TRANSACTION, self.id)
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=commits,
        )
        if commits:
            self.unknown.add(value)
        answer = await self.client.ask(coordinator, request, 3)
        check(answer.error_code)
        self.client.history.done += 1
        if commits:
            self.unknown.discard(value)
            self.committed.add(value)

    async def _add(self) -> None:
        assert self._producer is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=list(range(self._partitions)))],
        )
        while True:
            coordinator = await self.client.coordinator(TRANSACTION, self.id)
            answer = await self.client.ask(coordinator, request, 3)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                check(code)
                return
            # The last one is being completed.
            await self.client.pause()

    async def _write(self, index: int, value: bytes) -> None:
        assert self._producer is not None
        key = self._topic, index
        self.client.history.sent.setdefault(
            value + b"@%d" % index, Sent(key, ACKS_ALL, True, self.client.loop.time(), is_checked=True)
        )
        records = batch(
            [value + b"@%d" % index],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequences[index],
            is_transactional=True,
        )
        request = produce_request(self._topic, {index: records}, acks=ACKS_ALL)
        request.transactional_id = self.id
        code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for _ in range(SENDS):
            leader, _ = await self.client.leader(key)
            answer = await self.client.ask(leader, request, 9)
            result = answer.responses[0].partition_responses[0]
            code = result.error_code
            if code == ErrorCode.NONE:
                self._sequences[index] += 1
                self.client.history.acknowledge([value + b"@%d" % index], result.base_offset, self.client.loop.time())
                return
            self.client.forget_leader(key)
            if not error_for(code).retriable:
                break
            await self.client.pause()
        raise error_for(code)


class Committer:
    """Commits growing offsets of one group, and looks whether they last (I9).

    Args:
        is_excused: whether a broker may not know the committed offsets.
    """

    def __init__(self, client: Client, topic: str, ended: asyncio.Event, is_excused: Callable[[int], bool]) -> None:
        self.client = client
        self._topic = topic
        self._ended = ended
        self._is_excused = is_excused
        self.acknowledged = NOTHING
        self._attempted = 0

    async def work(self) -> None:
        """Commit and look until the end."""
        while not self._ended.is_set():
            await self.commit_once()
            await self.client.pause(3 * PAUSE_S)

    async def commit_once(self) -> bool:
        """Try to commit and to look; return whether both were answered."""
        try:
            await self._commit()
            await self._look()
        except FAILURES:
            await self.client.pause()
            return False
        return True

    async def look_once(self) -> bool:
        """Try to look at what was acknowledged, without another commit; return whether that was answered."""
        try:
            await self._look()
        except FAILURES:
            await self.client.pause()
            return False
        return True

    async def _commit(self) -> None:
        coordinator = await self.client.coordinator(GROUP, self.client.name)
        self._attempted += 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._attempted)
        request = OffsetCommitRequest(
            group_id=self.client.name,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[partition])],
        )
        answer = await self.client.ask(coordinator, request, 8)
        check(answer.topics[0].partitions[0].error_code)
        self.acknowledged = self._attempted
        self.client.history.done += 1

    async def _look(self) -> None:
        """Fetch the offset."""
        before = self.acknowledged
        coordinator = await self.client.coordinator(GROUP, self.client.name)
        wanted = OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.client.name, topics=[wanted])], require_stable=False
        )
        answer = (await self.client.ask(coordinator, request, 8)).groups[0]
        check(answer.error_code)
        check(answer.topics[0].partitions[0].error_code)
        found: int = answer.topics[0].partitions[0].committed_offset
        if not before <= found <= self._attempted and not self._is_excused(coordinator):
            self.client.history.complaints.append(
                f"{self.client.name}: broker {coordinator} has the offset {found}, {before} was acknowledged (I9)"
            )

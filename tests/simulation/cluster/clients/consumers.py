"""Consumers: what they have read must stay, and the high watermark must not go back (I4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.records.any_format import decode_any, iter_any_headers
from tests.simulation.cluster.clients.client import FAILURES, PAUSE_S, Client, check
from tests.simulation.cluster.clients.history import PartitionKey
from tests.support.requests.transactions import READ_COMMITTED, committed_in

LATEST = -1
MAX_BYTES = 4096
PARTITION_BYTES = 1024


class Consumer:
    """Reads partitions from their beginnings on.

    Args:
        client: its links.
        partitions: what it reads.
        isolation: 0 for all records, 1 for committed ones.
        is_excused: whether what a partition has from an offset on may have been taken back.
        latest_start: returns the latest offset at which a partition may begin.
        starts: the latest offsets at which partitions were seen to begin.
    """

    def __init__(
        self,
        client: Client,
        partitions: list[PartitionKey],
        isolation: int,
        ended: asyncio.Event,
        is_excused: Callable[[PartitionKey, int], bool],
        latest_start: Callable[[PartitionKey], int],
        starts: Mapping[PartitionKey, int],
    ) -> None:
        self.client = client
        self._isolation = isolation
        self._ended = ended
        self._is_excused = is_excused
        self._latest_start = latest_start
        self._starts = starts
        self._positions = dict.fromkeys(partitions, 0)
        self._aborted: dict[PartitionKey, set[int]] = {key: set() for key in partitions}
        self._seen: dict[tuple[PartitionKey, int], int] = {}
        """The high watermark that a leader told, by its epoch."""
        self._latest: dict[PartitionKey, tuple[int, int]] = {}
        """The newest epoch in which the end was told, and the end."""

    async def work(self) -> None:
        """Read until the end."""
        while not self._ended.is_set():
            key = self.client.chance.choice(list(self._positions))
            try:
                if self.client.chance.random() < 0.2:
                    await self._ask_for_end(key)
                else:
                    await self._fetch(key)
            except FAILURES as error:
                self.client.forget_leader(key)
                if isinstance(error, KafkaError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._begin_anew(key)
            await self.client.pause(2 * PAUSE_S)

    def _begin_anew(self, key: PartitionKey) -> None:
        if self._positions[key] < self._latest_start(key):
            self._positions[key] = max(self._positions[key], self._starts.get(key, 0))
            return
        if not self._is_excused(key, self._positions[key] - 1):
            self.client.history.complaints.append(
                f"{self.client.name}: {key} ends before {self._positions[key]}, which was read (I4)"
            )
        self._positions[key] = 0
        self._aborted[key].clear()

    async def _fetch(self, key: PartitionKey) -> None:
        leader, epoch = await self.client.leader(key)
        offset, asked_at = self._positions[key], self.client.loop.time()
        partition = FetchPartition(
            partition=key[1], current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=key[0], partitions=[partition])],
        )
        data = (await self.client.ask(leader, request, 12)).responses[0].partitions[0]
        check(data.error_code)
        if self._positions[key] != offset:
            return
        self._check_high_watermark(key, epoch, data.high_watermark)
        following = None
        end = data.last_stable_offset if self._isolation == READ_COMMITTED else data.high_watermark
        for position, header in iter_any_headers(data.records or b""):
            if header.last_offset >= end:
                self.client.history.complaints.append(
                    f"{self.client.name}: {key} has told {header.last_offset} before it was committed, at {end} (I4)"
                )
            if not header.is_control:
                _, records = decode_any(memoryview(data.records)[position : position + header.size])
                for record in records:
                    if record.offset >= offset:
                        self.client.history.note_read(key, record.offset, record.value or b"", asked_at)
            following = header.last_offset + 1
        if self._isolation == READ_COMMITTED:
            committed_in(data, self._aborted[key])
        if following is not None:
            self._positions[key] = following
            self.client.history.done += 1

    def _check_high_watermark(self, key: PartitionKey, epoch: int, told: int) -> None:
        before = self._seen.get((key, epoch), 0)
        if told < before:
            self.client.history.complaints.append(
                f"{self.client.name}: the high watermark of {key} goes from {before} to {told} in epoch {epoch} (I4)"
            )
        self._seen[key, epoch] = told

    async def _ask_for_end(self, key: PartitionKey) -> None:
        """Ask for the end. A leader that cannot know it yet does not tell it (KIP-207)."""
        leader, epoch = await self.client.leader(key)
        partition = ListOffsetsPartition(partition_index=key[1], current_leader_epoch=epoch, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=key[0], partitions=[partition])])
        data = (await self.client.ask(leader, request, 7)).topics[0].partitions[0]
        check(data.error_code)
        last_epoch, last = self._latest.get(key, (-1, 0))
        # A leader of before, which does not know yet that it was replaced, may be behind.
        if epoch >= last_epoch:
            if data.offset < last and not self._is_excused(key, data.offset):
                self.client.history.complaints.append(
                    f"{self.client.name}: the end of {key} goes from {last} in epoch {last_epoch} to {data.offset} in "
                    f"epoch {epoch} (I4)"
                )
            self._latest[key] = epoch, data.offset


async def read_committed(client: Client, key: PartitionKey) -> list[str] | None:
    """Return the values of committed transactions; None while one is open. Raises what `FAILURES` lists."""
    offset, stable = 0, 1
    aborted: set[int] = set()
    values: list[bytes] = []
    while offset < stable:
        leader, epoch = await client.leader(key)
        # The epoch has a broker refuse that leads no more: as a follower it would answer, with an older high watermark.
        partition = FetchPartition(
            partition=key[1], current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=key[0], partitions=[partition])],
        )
        try:
            data = (await client.ask(leader, request, 12)).responses[0].partitions[0]
            check(data.error_code)
        except FAILURES:
            client.forget_leader(key)
            raise
        stable = data.last_stable_offset
        if stable != data.high_watermark:
            return None
        found, following = committed_in(data, aborted)
        values += found
        offset = offset if following is None else following
    return [value.decode() for value in values]


async def read_all_committed(
    client: Client, topic: str, partitions: int, patience_s: float, seen: list[list[str]]
) -> None:
    """Add the values of committed transactions to `seen`, in a list for each partition.

    Raises:
        TimeoutError: a transaction of one of them stays open for too long.
    """
    for index in range(partitions):
        end = client.loop.time() + patience_s
        values: list[str] | None = None
        while values is None:
            try:
                values = await read_committed(client, (topic, index))
            except FAILURES:
                values = None
            if values is None:
                if client.loop.time() > end:
                    raise TimeoutError
                await client.pause()
        seen.append([value.partition("@")[0] for value in values])

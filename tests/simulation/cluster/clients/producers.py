"""Producers: with idempotence or without, with all acknowledgements or the leader's alone."""

from __future__ import annotations

import asyncio

from kafkalog.protocol.errors import KafkaError
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.simulation.cluster.clients.client import FAILURES, PAUSE_S, Client, check
from tests.simulation.cluster.clients.history import PartitionKey, Sent
from tests.support.wire import batch, produce_request

GIVEN_UP_S = 25.0
"""A batch that is not acknowledged after so long is given up; it may have been stored."""
MOST_RECORDS = 3


class Producer:
    """Sends batches to partitions of chance, each until it is acknowledged or given up.

    Args:
        client: its links.
        partitions: where it writes.
        acks: what it waits for.
        is_idempotent: whether it sends a batch again; without that it would be stored twice.

    Attributes:
        has_ended: set when it should come to its end.
    """

    def __init__(
        self, client: Client, partitions: list[PartitionKey], acks: int, ended: asyncio.Event, *, is_idempotent: bool
    ) -> None:
        self.client = client
        self.name = client.name
        self._partitions = partitions
        self._acks = acks
        self._ended = ended
        self._is_idempotent = is_idempotent
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[PartitionKey, int] = {}
        self._number = 0
        self.acknowledged = 0

    async def work(self) -> None:
        """Send until the end."""
        while not self._ended.is_set():
            await self.send_one()
            await self.client.pause(2 * PAUSE_S)

    async def send_one(self) -> bool:
        """Send one batch; return whether it was acknowledged."""
        client = self.client
        key = client.chance.choice(self._partitions)
        values = []
        for _ in range(client.chance.randint(1, MOST_RECORDS)):
            self._number += 1
            values.append(f"{self.name}:{self._number}".encode())
            client.history.sent[values[-1]] = Sent(
                key, self._acks, False, client.loop.time(), is_checked=self._is_idempotent
            )
        try:
            base_offset = await self._send(key, values)
        except FAILURES:
            # Whether it is stored is unknown, and so is the next sequence number.
            self._producer = None
            return False
        self.acknowledged += 1
        client.history.acknowledge(values, base_offset, client.loop.time())
        return True

    async def _send(self, key: PartitionKey, values: list[bytes]) -> int:
        """Send a batch until it is acknowledged; return its offset. Raises what `FAILURES` lists."""
        client, end = self.client, self.client.loop.time() + GIVEN_UP_S
        records: bytearray | None = None
        is_sent = False
        while True:
            try:
                if records is None:
                    records = await self._batch(key, values)
                leader, _ = await client.leader(key)
                is_sent = True
                answer = await client.ask(leader, produce_request(key[0], {key[1]: records}, self._acks), 9)
                result = answer.responses[0].partition_responses[0]
                check(result.error_code)
            except FAILURES as error:
                client.forget_leader(key)
                # Any error of a batch that was sent may come after it was stored, NOT_LEADER_OR_FOLLOWER included.
                may_repeat = self._is_idempotent or not is_sent
                if (
                    (isinstance(error, KafkaError) and not error.retriable)
                    or client.loop.time() > end
                    or not may_repeat
                ):
                    raise
                await client.pause()
                continue
            self._sequences[key] = self._sequences.get(key, 0) + len(values)
            offset: int = result.base_offset
            return offset

    async def _batch(self, key: PartitionKey, values: list[bytes]) -> bytearray:
        if not self._is_idempotent:
            return batch(list(values))
        if self._producer is None:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer = await self.client.ask_any(request, 4)
            check(answer.error_code)
            self._producer = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return batch(
            list(values),
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequences.get(key, 0),
        )

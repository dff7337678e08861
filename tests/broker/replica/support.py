"""Fetches of a follower, which a socket plays."""

from __future__ import annotations

from typing import Any

from kafkalog.protocol.messages.fetch import FetchRequest
from tests.broker.replica.in_process import Wire
from tests.support.wire import fetch_request

FOLLOWER = 9


def request(offset: int, epoch: int = 1, replica: int = FOLLOWER, **fields: Any) -> FetchRequest:
    fetched_epoch = fields.pop("last_fetched_epoch", -1)
    made = fetch_request("t", {0: offset}, replica_id=replica, **fields)
    partition = made.topics[0].partitions[0]
    partition.current_leader_epoch, partition.log_start_offset = epoch, 0
    partition.last_fetched_epoch = fetched_epoch
    return made


async def fetched(wire: Wire, message: FetchRequest, version: int = 12) -> Any:
    return (await wire.exchange(message, version)).responses[0].partitions[0]

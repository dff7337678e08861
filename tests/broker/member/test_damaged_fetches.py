"""A follower whose leader sends damaged records of one partition, on simulated time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.net.links.link import Link
from kafkalog.protocol.messages.fetch import FetchResponse
from kafkalog.records.batch import MAGIC_AT
from tests.broker.member.simulated import Cluster, with_cluster
from tests.support.wire import batch, produce_request

IMPOSSIBLE_LENGTH_AT = 8
"""The first byte of a batch's length, which makes it negative."""


def damaged(records: bytes, at: int) -> bytes:
    """Return records whose first batch has another byte in its header."""
    return records[:at] + b"\xff" + records[at + 1 :]


def damage_first(response: FetchResponse, damage: Callable[[bytes], bytes]) -> int:
    """Damage the records of partition 0, and put it first; return how often it had any."""
    found = 0
    for topic in response.responses:
        topic.partitions.sort(key=lambda data: data.partition_index)
        for data in topic.partitions:
            if data.partition_index == 0 and data.records:
                data.records = damage(bytes(data.records))
                found += 1
    return found


@pytest.mark.parametrize("at", [IMPOSSIBLE_LENGTH_AT, MAGIC_AT])
def test_a_damaged_first_batch_delays_its_partition_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    sent = 0
    request = Link.request

    async def damaging(self: Link, *arguments: Any, **named: Any) -> Any:
        nonlocal sent
        response = await request(self, *arguments, **named)
        if isinstance(response, FetchResponse):
            sent += damage_first(response, lambda records: damaged(records, at))
        return response

    async def work(cluster: Cluster) -> None:
        def end(broker: int, index: int) -> int:
            partition = cluster.hosts[broker].server.replicas.get("t", index)
            assert partition is not None
            return partition.log.log_end_offset

        with monkeypatch.context() as patched:
            patched.setattr(Link, "request", damaging)
            await cluster.create("t", (1, 2))
            cluster.assigned["t", 1] = cluster.assigned["t", 0]
            await cluster.tell_metadata(("t", 1))
            await cluster.tell_roles(("t", 1), is_new=True)
            for index in range(2):
                answer = await cluster.hosts[1].ask(produce_request("t", {index: batch([b"x"])}, 1), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
            await cluster.until(lambda: sent >= 3, "the damaged batch has been sent some times")
            await cluster.until(lambda: end(2, 1) == 1, "the other partition is replicated")
            assert end(2, 0) == 0
        await cluster.until(lambda: end(2, 0) == 1, "it is replicated once its batch arrives whole")

    with_cluster(tmp_path, work)

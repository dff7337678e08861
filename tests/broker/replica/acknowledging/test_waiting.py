"""Test that a waiting produce is answered after a change: another leader, a new epoch, too few replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.api.produce.delayed_produce import DelayedProduce
from broker.replica.partition import Partition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.produce import ProduceRequest
from tests.broker.replica.in_process import InProcess, Wire, with_broker
from tests.support.wire import batch, produce_request

VERSION = 10


async def waiting(broker: InProcess, acks: int = -1, **config: str) -> tuple[Partition, Wire, ProduceRequest]:
    """A produce whose records are appended, and whose fsync is held."""
    partition = await broker.create_topic("t", flush_messages="1", **config)
    wire = await broker.connect()
    broker.disk.held = True
    request = produce_request("t", {0: batch([b"x"])}, acks)
    wire.send(request, VERSION)
    await broker.until(lambda: len(broker.server.replicas.produce_purgatory) == 1, "the produce waits")
    return partition, wire, request


def delayed(broker: InProcess, base_offset: int) -> DelayedProduce:
    """The produce that waits with its records at `base_offset`."""
    assert broker.server.acceptor is not None
    for connection in broker.server.acceptor.connections:
        for response in connection.postponed:
            operation = response.operation
            assert isinstance(operation, DelayedProduce)
            if operation._waiting[0].result.base_offset == base_offset:
                return operation
    raise AssertionError(f"no produce waits at {base_offset}")


async def answer(wire: Wire, request: ProduceRequest) -> Any:
    response = await wire.receive(request, VERSION)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_leader_that_becomes_a_follower_answers_at_once(tmp_path: Path, acks: int) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire, request = await waiting(broker, acks)
        broker.assign(partition, leader=9, leader_epoch=1, replicas=(0, 9), isr=(9,))
        told = await answer(wire, request)
        assert (told.error_code, told.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        # Nobody knows its address.
        assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (-1, -1)

    with_broker(tmp_path, work)


def test_what_an_earlier_leadership_appended_is_not_acknowledged(tmp_path: Path) -> None:
    """The leader in between may have had it truncated, and others' records may lie at its offset."""

    async def work(broker: InProcess) -> None:
        partition, wire, request = await waiting(broker)
        broker.assign(partition, leader=9, leader_epoch=1, replicas=(0, 9), isr=(9,))
        broker.assign(partition, leader=0, leader_epoch=2, replicas=(0, 9), isr=(0,))
        broker.disk.release()
        assert (await answer(wire, request)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(tmp_path, work)


def test_a_leader_that_is_elected_again_keeps_what_it_appended(tmp_path: Path) -> None:
    """As in Kafka: a controller begins a new epoch when another broker leaves the ISR, and the log stays as it is."""

    async def work(broker: InProcess) -> None:
        partition, wire, request = await waiting(broker)
        broker.assign(partition, leader_epoch=1)
        broker.disk.release()
        told = await answer(wire, request)
        assert (told.error_code, told.base_offset) == (ErrorCode.NONE, 0)

    with_broker(tmp_path, work)


@pytest.mark.parametrize(("acks", "code"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), (1, ErrorCode.NONE)])
def test_an_isr_that_shrinks_after_the_append(tmp_path: Path, acks: int, code: ErrorCode) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire, request = await waiting(broker, acks, min_insync_replicas="2")
        broker.assign(partition, leader_epoch=1, replicas=(0, 9), isr=(0,))
        broker.disk.release()
        assert (await answer(wire, request)).error_code == code
        refused = await wire.exchange(produce_request("t", {0: batch([b"x"])}, -1), VERSION)
        assert refused.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end_offset == 1

    with_broker(tmp_path, work)


def test_more_in_sync_replicas_than_there_are_replicas_are_not_asked_for(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        await broker.create_topic("t", min_insync_replicas="2")
        wire = await broker.connect()
        response = await wire.exchange(produce_request("t", {0: batch([b"x"])}, -1), VERSION)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    with_broker(tmp_path, work)


def test_a_partition_that_is_not_hosted_any_more_is_not_led(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        _, wire, request = await waiting(broker)
        broker.server.replicas.stop_partition("t", 0)
        assert (await answer(wire, request)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(tmp_path, work)


def test_a_produce_that_fails_while_it_waits_has_its_connection_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire, _ = await waiting(broker)
        healthy = await broker.connect()
        other = produce_request("t", {0: batch([b"y"])}, -1)
        healthy.send(other, VERSION)
        await broker.until(lambda: len(broker.server.replicas.produce_purgatory) == 2, "both wait")
        # A response that cannot be encoded stands for whatever may fail there.
        broken = delayed(broker, base_offset=0)
        broken._waiting[0].result.base_offset = None  # type: ignore[assignment]
        broker.disk.release()
        assert await wire.is_closed()
        assert (await answer(healthy, other)).base_offset == 1
        assert partition.log.log_end_offset == 2

    with_broker(tmp_path, work)
    assert "DelayedProduce failed while it waited" in caplog.text

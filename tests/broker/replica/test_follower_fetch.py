"""Test how a leader treats the fetches of followers, which a socket plays here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from broker.log.log import Log
from broker.replica.partition import Partition
from kafkalog.protocol.errors import (
    CorruptMessageError,
    ErrorCode,
    KafkaError,
    UnsupportedForMessageFormatError,
)
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.fetch import ReplicaState
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.produce import ProduceRequest
from tests.broker.replica.in_process import InProcess, Wire, with_broker
from tests.broker.replica.support import FOLLOWER, fetched, request
from tests.support.wire import batch, produce_request

VERSIONS = [11, 12]


async def replicated(broker: InProcess, isr: tuple[int, ...] = (0, FOLLOWER)) -> tuple[Partition, Wire]:
    """A partition with a follower, and the follower's connection."""
    partition = await broker.create_topic("t")
    broker.assign(partition, leader_epoch=1, replicas=(0, FOLLOWER), isr=isr)
    return partition, await broker.connect()


async def produced(broker: InProcess, value: bytes = b"x") -> tuple[Wire, ProduceRequest]:
    """A produce with acks=all whose records are appended."""
    wire = await broker.connect()
    message = produce_request("t", {0: batch([value])}, -1)
    before = len(broker.server.replicas.produce_purgatory)
    wire.send(message, 9)
    await broker.until(lambda: len(broker.server.replicas.produce_purgatory) == before + 1, "the produce waits")
    return wire, message


def test_a_fetch_that_needs_the_disk_tells_how_far_the_follower_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(broker: InProcess) -> None:
        partition, follower = await replicated(broker)
        await produced(broker)
        assert (await fetched(follower, request(0))).records
        assert partition.high_watermark == 0
        reads: list[Callable[[], None]] = [lambda: None]
        monkeypatch.setattr(Log, "missing", lambda log, offset, size, committed: reads.pop() if reads else None)
        assert not (await fetched(follower, request(1))).records
        assert not reads
        assert partition.high_watermark == 1

    with_broker(tmp_path, work)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_produce_waits_for_the_fetch_that_tells_it_is_replicated(tmp_path: Path, version: int) -> None:
    async def work(broker: InProcess) -> None:
        partition, follower = await replicated(broker)
        producer, message = await produced(broker)
        consumer = await broker.connect()
        waits = request(0, replica=-1, max_wait_ms=60_000)
        consumer.send(waits, version)
        found = await fetched(follower, request(0), version)
        assert (found.error_code, found.high_watermark, len(found.records or b"") > 0) == (0, 0, True)
        assert partition.high_watermark == 0
        later = await fetched(follower, request(1), version)
        assert (later.error_code, len(later.records or b"")) == (0, 0)
        assert partition.high_watermark == 1
        answer = (await producer.receive(message, 9)).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        read = (await consumer.receive(waits, version)).responses[0].partitions[0]
        assert (read.error_code, read.high_watermark, len(read.records or b"") > 0) == (0, 1, True)

    with_broker(tmp_path, work)


def test_only_a_replica_reads_beyond_the_high_watermark(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await replicated(broker)
        await produced(broker)
        assert len((await fetched(wire, request(0, replica=-1))).records or b"") == 0
        assert (await fetched(wire, request(0, replica=7))).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await fetched(wire, request(0, -1, replica=7))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await fetched(wire, request(1, epoch=0))).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (await fetched(wire, request(2))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert partition.high_watermark == 0, "none of these tells where a follower is"
        named = request(1, replica=-1)
        named.replica_state = ReplicaState(replica_id=FOLLOWER)
        assert partition.log.topic_id is not None
        named.topics[0].topic_id = partition.log.topic_id
        assert (await fetched(wire, named, 15)).error_code == ErrorCode.NONE
        assert partition.high_watermark == 1

    with_broker(tmp_path, work)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("key", ["consumer_byte_rate", "request_percentage"])
def test_quotas_of_clients_are_not_for_followers(tmp_path: Path, key: str, version: int) -> None:
    async def work(broker: InProcess) -> None:
        _, follower = await replicated(broker, (0,))
        wire = await broker.connect()
        await wire.exchange(produce_request("t", {0: batch([b"x" * 1000] * 100)}, 1), 9)
        entity = [AlterClientQuotasEntity(entity_type="client-id", entity_name="wire-test")]
        ops = [AlterClientQuotasOp(key=key, value=1e-9)]
        entries = [AlterClientQuotasEntry(entity=entity, ops=ops)]
        altered = await wire.exchange(AlterClientQuotasRequest(entries=entries), 1)
        assert altered.entries[0].error_code == ErrorCode.NONE
        for _ in range(3):
            answer = await follower.exchange(request(0), version)
            assert answer.throttle_time_ms == 0
            assert len(answer.responses[0].partitions[0].records) > 100_000
        assert (await follower.exchange(request(0, session_id=77, session_epoch=3), version)).throttle_time_ms == 0
        assert (await follower.exchange(request(100), version)).throttle_time_ms == 0
        consumer = await broker.connect()
        answer = await consumer.exchange(request(0, -1, replica=-1), version)
        assert answer.throttle_time_ms > 0, "the quota holds for a consumer"

    with_broker(tmp_path, work)


def test_a_follower_that_waits_gets_what_is_appended_and_tells_nothing_by_it(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, follower = await replicated(broker)
        waits = request(0, max_wait_ms=60_000)
        follower.send(waits, 12)
        await broker.until(lambda: len(broker.server.replicas.fetch_purgatory) == 1, "the follower waits")
        await produced(broker)
        answer = (await follower.receive(waits, 12)).responses[0].partitions[0]
        assert (answer.error_code, answer.high_watermark, len(answer.records) > 0) == (0, 0, True)
        assert partition.high_watermark == 0

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [(10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (12, 1, ErrorCode.FENCED_LEADER_EPOCH)],
)
def test_a_fetch_that_waits_learns_of_a_change_of_role(
    tmp_path: Path, version: int, epoch: int, code: ErrorCode
) -> None:
    async def work(broker: InProcess) -> None:
        partition, _ = await replicated(broker)
        wire = await broker.connect()
        waits = request(0, epoch, replica=-1, max_wait_ms=60_000)
        wire.send(waits, version)
        await broker.until(lambda: len(broker.server.replicas.fetch_purgatory) == 1, "the consumer waits")
        broker.assign(partition, leader=FOLLOWER, leader_epoch=2, replicas=(0, FOLLOWER), isr=(FOLLOWER,))
        answer = (await wire.receive(waits, version)).responses[0].partitions[0]
        assert answer.error_code == code

    with_broker(tmp_path, work)


def test_a_follower_that_diverged_is_told_where(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, follower = await replicated(broker, (0,))
        wire = await broker.connect()
        await wire.exchange(produce_request("t", {0: batch([b"a", b"b"])}, 1), 9)
        broker.assign(partition, leader_epoch=5, replicas=(0, FOLLOWER), isr=(0,))
        await wire.exchange(produce_request("t", {0: batch([b"c"])}, 1), 9)
        agrees = await fetched(follower, request(2, 5, last_fetched_epoch=1))
        assert (agrees.error_code, agrees.diverging_epoch.epoch, len(agrees.records) > 0) == (0, -1, True)
        for epoch, offset in ((3, 3), (1, 3)):
            diverged = await fetched(follower, request(offset, 5, last_fetched_epoch=epoch, max_wait_ms=60_000))
            assert (diverged.error_code, len(diverged.records or b"")) == (0, 0)
            assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (1, 2)
        leading = partition.leading
        assert leading is not None
        assert leading.followers[FOLLOWER].log_end_offset == 2, "a log that diverged is not replicated so far"
        unknown = await fetched(follower, request(1, 5, last_fetched_epoch=9))
        assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_broker(tmp_path, work)


def test_a_consumer_that_reads_from_a_follower_may_name_the_epoch_of_its_last_record(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t")
        broker.assign(partition, leader=FOLLOWER, leader_epoch=2, replicas=(0, FOLLOWER), isr=(0, FOLLOWER))
        assert partition.append_as_follower(memoryview(batch([b"a", b"b"], leader_epoch=2)), 2, 2, 0) is not None
        wire = await broker.connect()
        read = await fetched(wire, request(1, 2, replica=-1, last_fetched_epoch=2))
        assert (read.error_code, read.diverging_epoch.epoch, len(read.records) > 0) == (0, -1, True)
        diverged = await fetched(wire, request(5, 2, replica=-1, last_fetched_epoch=2))
        assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (2, 2)

    with_broker(tmp_path, work)


def test_a_follower_joins_the_isr_when_the_controller_confirms_it(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, follower = await replicated(broker, (0,))
        await (await broker.connect()).exchange(produce_request("t", {0: batch([b"a"])}, -1), 9)
        assert partition.expanded_isr(FOLLOWER) is None
        await fetched(follower, request(1))
        proposed = partition.expanded_isr(FOLLOWER)
        assert proposed == frozenset({0, FOLLOWER})
        assert proposed is not None
        partition.propose_isr(proposed)
        producer, message = await produced(broker)
        partition.confirm_isr(0, frozenset({0}), 3)
        assert partition.isr == frozenset({0}), "the answer is to a proposal of an earlier epoch"
        partition.confirm_isr(1, proposed, 2)
        assert partition.isr == proposed
        await fetched(follower, request(2))
        assert (await producer.receive(message, 9)).responses[0].partition_responses[0].error_code == 0

    with_broker(tmp_path, work)


def test_the_end_is_not_told_before_the_new_leader_knows_it(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, follower = await replicated(broker)
        await produced(broker)
        broker.assign(partition, leader_epoch=2, replicas=(0, FOLLOWER), isr=(0, FOLLOWER))

        async def ask(timestamp: int, replica: int = -1, version: int = 7) -> Any:
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            topic = ListOffsetsTopic(name="t", partitions=[wanted])
            message = ListOffsetsRequest(replica_id=replica, topics=[topic])
            return (await follower.exchange(message, version)).topics[0].partitions[0]

        for timestamp in (-1, -3, 0, 1 << 60):
            found = await ask(timestamp)
            assert (found.error_code, found.offset) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1), timestamp
        for timestamp in (-1, 0, 1 << 60):
            assert (await ask(timestamp, version=4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert ((await ask(0, FOLLOWER)).error_code, (await ask(0, FOLLOWER)).offset) == (0, 0)
        assert ((await ask(1 << 60, FOLLOWER)).error_code, (await ask(1 << 60, FOLLOWER)).offset) == (0, -1)
        assert ((await ask(-2)).error_code, (await ask(-2)).offset) == (0, 0)
        assert (await ask(-1, FOLLOWER)).offset == 1
        await fetched(follower, request(1, 2))
        assert (await ask(-1)).offset == 1
        assert ((await ask(0)).error_code, (await ask(0)).offset) == (0, 0)
        assert ((await ask(1 << 60)).error_code, (await ask(1 << 60)).offset) == (0, -1)

    with_broker(tmp_path, work)


def test_a_follower_appends_what_its_leader_wrote_and_takes_over_its_high_watermark(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t")
        broker.assign(partition, leader=FOLLOWER, leader_epoch=1, replicas=(0, FOLLOWER), isr=(FOLLOWER,))
        records = memoryview(batch([b"a", b"b"], leader_epoch=1))
        info = partition.append_as_follower(records, 1, 1, 0)
        assert info is not None
        assert (info.last_offset, partition.log.log_end_offset, partition.high_watermark) == (1, 2, 1)
        assert partition.append_as_follower(memoryview(b""), 1, 99, 0) is None
        assert partition.high_watermark == 2
        assert partition.truncation(1, 1) == (1, True)
        broker.assign(partition, leader_epoch=2, replicas=(0, FOLLOWER), leader=0, isr=(0,))
        wire = await broker.connect()
        answer = await wire.exchange(produce_request("t", {0: batch([b"c"])}, -1), 9)
        assert answer.responses[0].partition_responses[0].base_offset == 2

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("at", "value", "error"), [(8, 0xFF, CorruptMessageError), (16, 9, UnsupportedForMessageFormatError)]
)
def test_a_damaged_first_batch_is_an_error_of_its_partition(
    tmp_path: Path, at: int, value: int, error: type[KafkaError]
) -> None:
    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t")
        broker.assign(partition, leader=FOLLOWER, leader_epoch=1, replicas=(0, FOLLOWER), isr=(FOLLOWER,))
        records = bytearray(batch([b"a"], leader_epoch=1))
        whole, records[at] = records[at], value
        with pytest.raises(error, match="in topic partition t-0"):
            partition.append_as_follower(memoryview(records), 1, 1, 0)
        assert partition.log.log_end_offset == 0
        records[at] = whole
        assert partition.append_as_follower(memoryview(records), 1, 1, 0) is not None
        assert partition.log.log_end_offset == 1

    with_broker(tmp_path, work)


def test_metrics_tell_followers_from_consumers(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        _, follower = await replicated(broker)
        await produced(broker)
        sent = len((await fetched(follower, request(0))).records)
        # That makes the records visible.
        await fetched(follower, request(1))
        consumer = await broker.connect()
        for _ in range(3):
            assert len((await fetched(consumer, request(0, replica=-1))).records) == sent
        assert broker.server.metrics is not None
        url = f"http://127.0.0.1:{broker.server.metrics.port}/metrics"
        answer = await asyncio.get_running_loop().run_in_executor(None, urlopen, url)
        with answer:
            lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
        found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
        traffic, requests = "kafka_server_brokertopicmetrics_", "kafka_network_requestmetrics_totaltimems_count"
        assert found[f'{traffic}bytesout_total{{topic="t"}}'] == 3 * sent
        assert found[f"{traffic}bytesout_total"] == 3 * sent
        assert found[f"{traffic}replicationbytesout_total"] == sent
        counts = {"Fetch": 5, "FetchConsumer": 3, "FetchFollower": 2}
        assert {api: found[f'{requests}{{request="{api}"}}'] for api in counts} == counts
        answered = "kafka_network_requestmetrics_requests_total"
        assert {api: found[f'{answered}{{request="{api}",version="12"}}'] for api in counts} == counts

    with_broker(tmp_path, work, {"kafkalog.metrics.listener": "127.0.0.1:0"})

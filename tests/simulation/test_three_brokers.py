"""Test that three brokers in one process, on one loop and simulated time, share nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.net.links.link_errors import LinkRefusedError
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.fetch import FetchResponse
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.produce import ProduceResponse
from kafkalog.records.batch import Record, decode_batch, iter_headers
from tests.simulation.host import PORT, SimulatedHost
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import VirtualLoop, run
from tests.support.wire import batch, fetch_request, produce_request

EARLIEST = -2
MINUTE_S = 60.0
NAMES = ("one", "two", "three")
SETTINGS = {
    "log.retention.check.interval.ms": "30000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


def decoded(data: bytes) -> list[Record]:
    return [record for position, _ in iter_headers(data) for record in decode_batch(data, position)[1]]


class Life:
    """The life of three brokers under one seed.

    Attributes:
        told: what their clients were told, and when.
    """

    def __init__(self, loop: VirtualLoop, directory: Path, seed: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        network = SimulatedNetwork(loop, self.chance)
        self.hosts = [
            SimulatedHost(
                network, name, directory / name, {"broker.id": str(number), **SETTINGS}, random.Random(seed + number)
            )
            for number, name in enumerate(NAMES, 1)
        ]
        self.told: list[tuple[float, str, object]] = []
        self.sent: dict[str, list[bytes]] = {name: [] for name in NAMES}

    def tell(self, host: SimulatedHost, what: object) -> None:
        self.told.append((self.loop.time(), host.name, what))

    async def create(self, host: SimulatedHost, topic: str, **config: str) -> None:
        configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
        wanted = CreatableTopic(name=topic, num_partitions=2, replication_factor=1, configs=configs)
        response = await host.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False), 5)
        assert response.topics[0].error_code == ErrorCode.NONE
        self.tell(host, topic)

    async def produce(self, host: SimulatedHost, topic: str) -> None:
        now_ms = host.server.runtime.now_ms()
        values = [f"{host.name} {self.chance.random()}".encode() for _ in range(self.chance.randint(1, 50))]
        records = batch(values, timestamp=now_ms)
        response: ProduceResponse = await host.ask(produce_request(topic, {0: records}, acks=-1), 9)
        result = response.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, len(self.sent[host.name]))
        self.sent[host.name] += values
        self.tell(host, result.base_offset)

    async def read(self, host: SimulatedHost, topic: str, offset: int = 0) -> list[bytes]:
        end, found = len(self.sent[host.name]), []
        while offset < end:
            response: FetchResponse = await host.ask(fetch_request(topic, {0: offset}), 12)
            data = response.responses[0].partitions[0]
            assert data.error_code == ErrorCode.NONE
            records = decoded(bytes(data.records))
            found += [record.value or b"" for record in records if record.offset >= offset]
            offset = records[-1].offset + 1
        self.tell(host, len(found))
        return found

    async def take_part(self, host: SimulatedHost) -> None:
        """Join a group of either protocol, and begin a fetch session; tell the ids that the broker made up."""
        joining = JoinGroupRequest(
            group_id="classic",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = await host.ask(joining, 3)
        beating = ConsumerGroupHeartbeatRequest(
            group_id="new", rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        beaten = await host.ask(beating, 0)
        fetched: FetchResponse = await host.ask(fetch_request("t", {0: 0}, session_epoch=0), 12)
        assert joined.error_code == beaten.error_code == fetched.error_code == ErrorCode.NONE
        assert fetched.session_id > 0
        self.tell(host, (joined.member_id, beaten.member_id, fetched.session_id))

    async def start_of(self, host: SimulatedHost, topic: str) -> int:
        wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)])
        response = await host.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 5)
        offset: int = response.topics[0].partitions[0].offset
        return offset

    async def close(self) -> None:
        for host in self.hosts:
            await host.link.close()


def live(directory: Path, seed: int, life: Callable[[Life], Awaitable[None]]) -> list[tuple[float, str, object]]:
    async def main(loop: VirtualLoop) -> list[tuple[float, str, object]]:
        lives = Life(loop, directory, seed)
        for host in lives.hosts:
            await host.start()
        await life(lives)
        for host in lives.hosts:
            await host.stop()
        await lives.close()
        return lives.told

    return run(main)


async def everything(life: Life) -> None:
    """Topics, records, groups and transactions on all three at once; a stop and a start; retention."""
    for host in life.hosts:
        metadata: MetadataResponse = await host.ask(MetadataRequest(topics=None), 9)
        (broker,) = metadata.brokers
        assert (broker.node_id, broker.host, broker.port) == (life.hosts.index(host) + 1, host.name, PORT)
        assert metadata.controller_id == broker.node_id
        life.tell(host, metadata.cluster_id)
        # The same name on all of them, and kept for different times.
        await life.create(host, "t", retention_ms=str(60_000 * (1 if host.name == "one" else 100)))
        coordinator = await host.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        assert (coordinator.node_id, coordinator.host) == (broker.node_id, host.name)
    assert len({host.server.store.state.cluster_id for host in life.hosts}) == 3
    for _ in range(30):
        await life.produce(life.chance.choice(life.hosts), "t")
    for host in life.hosts:
        # Each counts its own producer ids, offsets and traffic.
        assert (
            await host.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        ).producer_id == 0
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        committed = await host.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 7)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await life.read(host, "t") == life.sent[host.name]
        await life.take_part(host)
        assert host.server.replicas.counters.total("messages_in") >= len(life.sent[host.name])
    one, two, three = life.hosts
    await two.stop()
    while two.link.connected:
        await asyncio.sleep(0.01)
    with pytest.raises(LinkRefusedError):
        await two.ask(MetadataRequest(topics=None), 9)
    await life.produce(one, "t")
    await two.start()
    assert await life.read(two, "t") == life.sent["two"]
    await three.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
    # Time goes by in no time: retention takes what one has, and leaves what two has.
    await asyncio.sleep(3 * MINUTE_S)
    assert await life.start_of(one, "t") == len(life.sent["one"])
    assert await life.start_of(two, "t") == 0
    assert await life.read(two, "t") == life.sent["two"]
    life.tell(one, "end")


@pytest.mark.parametrize("seed", range(3))
def test_three_brokers_share_a_process_and_nothing_else(tmp_path: Path, seed: int) -> None:
    live(tmp_path, seed, everything)


def test_the_same_seed_is_the_same_life(tmp_path: Path) -> None:
    first, again, other = (live(tmp_path / name, seed, everything) for name, seed in (("a", 5), ("b", 5), ("c", 6)))
    assert first == again
    assert first != other

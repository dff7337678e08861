"""Test markers to, and verification by, other brokers: real brokers and links on a simulated network."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.listeners import Endpoint
from broker.coordinator.transaction.admission import Admission
from broker.coordinator.transaction.machine import Producer, TopicPartition
from broker.coordinator.transaction.marker_router import MarkerRouter
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.verification import Unverified, Verifier
from broker.metadata.cache import MetadataCache
from broker.metadata.model import NO_LEADER, BrokerRegistration, ClusterState, PartitionState, TopicState
from broker.net.links.link import Link, LinkSettings
from broker.net.links.link_errors import LinkError
from broker.replica.partition import Partition
from broker.server import Server
from kafkalog.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    LeaderNotAvailableError,
    NotCoordinatorError,
    TransactionAbortableError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from kafkalog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.records.batch import Record, encode_batch
from kafkalog.storage.topics import TRANSACTION_STATE
from tests.simulation.host import PORT, SimulatedHost
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import VirtualLoop, run
from tests.simulation.workers import SimulatedWorkers
from tests.support.amount import mostly_exhaustive

NAMES = {1: "one", 2: "two"}
PARTITIONS = 40
TXN = "txn"


class Cluster:
    """Two brokers, each a cluster of its own, and the metadata that would join them.

    Attributes:
        connected: the purposes of the links that were made.
    """

    def __init__(self, loop: VirtualLoop, directory: Path, seed: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.network = SimulatedNetwork(loop, self.chance)
        settings = {"transaction.state.log.num.partitions": "2"}
        self.hosts = {
            number: SimulatedHost(
                self.network,
                name,
                directory / name,
                {"broker.id": str(number), **settings},
                random.Random(seed + number),
            )
            for number, name in NAMES.items()
        }
        brokers = {
            number: BrokerRegistration(number, (Endpoint("PLAINTEXT", name, PORT),)) for number, name in NAMES.items()
        }
        self.cache = MetadataCache(ClusterState("c", brokers=brokers))
        self.connected: list[str] = []
        self.requests = 0

    def lead(self, topic: str, leaders: list[int]) -> None:
        state = self.cache.image
        partitions = tuple(PartitionState((leader,), (leader,), leader) for leader in leaders)
        made = TopicState(topic, next(iter(self.cache.names_by_id()), random_id(self.chance)), partitions)
        self.cache.update(replace(state, topics={**state.topics, topic: made}))

    def connect(self, broker: BrokerRegistration, purpose: str) -> Link:
        self.connected.append(purpose)
        link = Link(
            NAMES[broker.broker_id],
            PORT,
            LinkSettings("test", request_timeout=5.0),
            loop=self.loop,
            workers=SimulatedWorkers(self.loop, self.chance),
            chance=self.chance,
            network=self.network.host("client"),
        )
        send = link.request

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.requests += 1
            return await send(*arguments, **named)

        link.request = counted  # type: ignore[method-assign]
        return link

    def router(self) -> MarkerRouter:
        here = self.hosts[1].server

        def leads(topic: str, index: int) -> bool:
            state = self.cache.image.partition(topic, index)
            return state is not None and state.leader == 1

        return MarkerRouter(here.broker.transactions.markers.write, leads, self.cache, self.connect, version=1)

    async def create(self, topic: str, partitions: int) -> None:
        for host in self.hosts.values():
            wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
            response = await host.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5)
            assert response.topics[0].error_code == ErrorCode.NONE

    def ends(self, broker: int, topic: str) -> list[int]:
        found = [self.hosts[broker].server.replicas.get(topic, index) for index in range(PARTITIONS)]
        return [-1 if partition is None else partition.log.log_end_offset for partition in found]


def random_id(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128))


def in_cluster(tmp_path: Path, scenario: Callable[[Cluster], Coroutine[Any, Any, None]], seed: int = 0) -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = Cluster(loop, tmp_path, seed)
        for host in cluster.hosts.values():
            await host.start()
        try:
            await asyncio.wait_for(scenario(cluster), 600)
        finally:
            for host in cluster.hosts.values():
                await host.stop()

    run(main)


@pytest.mark.parametrize("seed", mostly_exhaustive(range(20), 2))
def test_markers_reach_each_leader_in_few_requests(tmp_path: Path, seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", PARTITIONS)
        leaders = [cluster.chance.choice([1, 2]) for _ in range(PARTITIONS)]
        cluster.lead("t", leaders)
        router = cluster.router()
        producers = range(100, 110)
        writes = [
            router.write("t", index, Marker(producer, 0, producer % 2 == 0, 3))
            for producer in producers
            for index in range(PARTITIONS)
        ]
        await asyncio.gather(*writes)
        for broker in (1, 2):
            expected = [len(producers) if leader == broker else 0 for leader in leaders]
            assert cluster.ends(broker, "t") == expected
        assert cluster.connected == ["txn-markers"]
        assert cluster.requests == 1, "what is written in one turn goes together"
        await router.close()

    in_cluster(tmp_path, scenario, seed)


def test_errors_of_markers_are_those_of_the_leader(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", 1)
        cluster.lead("t", [2, 2])
        router = cluster.router()
        await router.write("t", 0, Marker(7, 2, True, 5))
        with pytest.raises(TransactionCoordinatorFencedError):
            await router.write("t", 0, Marker(7, 2, True, 4))
        with pytest.raises(InvalidProducerEpochError):
            await router.write("t", 0, Marker(7, 1, True, 6))
        with pytest.raises(UnknownTopicOrPartitionError):
            await router.write("t", 1, Marker(7, 2, True, 5))
        # Two transactions of one producer: the answer names only the producer, so they go one after the other.
        both = [router.write("t", 0, Marker(7, 3, True, 5)), router.write("t", 0, Marker(7, 2, False, 5))]
        first, second = await asyncio.gather(*both, return_exceptions=True)
        assert isinstance(first, int)
        assert isinstance(second, InvalidProducerEpochError)
        cluster.lead("t", [NO_LEADER])
        with pytest.raises(LeaderNotAvailableError):
            await router.write("t", 0, Marker(8, 0, True, 5))
        with pytest.raises(LeaderNotAvailableError):
            await router.write("gone", 0, Marker(8, 0, True, 5))
        await router.close()

    in_cluster(tmp_path, scenario)


def test_markers_fail_while_the_leader_is_away_and_are_written_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", 1)
        cluster.lead("t", [2])
        router = cluster.router()
        await router.write("t", 0, Marker(7, 0, True, 5))
        await cluster.hosts[2].stop()
        with pytest.raises(LinkError):
            await router.write("t", 0, Marker(8, 0, True, 5))
        await cluster.hosts[2].start()
        for _ in range(100):
            try:
                await router.write("t", 0, Marker(8, 0, True, 5))
                break
            except LinkError:
                await asyncio.sleep(0.1)
        assert cluster.ends(2, "t")[0] == 2
        await router.close()
        assert (await asyncio.gather(router.write("t", 0, Marker(9, 0, True, 5)), return_exceptions=True))[
            0
        ] is not None

    in_cluster(tmp_path, scenario)


def test_closing_makes_no_connection_for_markers_that_wait(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", 1)
        cluster.lead("t", [2])
        router = cluster.router()
        # The second one waits for the answer to the first one.
        writes = [router.write("t", 0, Marker(7, epoch, True, 5)) for epoch in range(2)]
        while not cluster.requests:
            await asyncio.sleep(0)
        await router.close()
        assert all(isinstance(error, Exception) for error in await asyncio.gather(*writes, return_exceptions=True))
        assert cluster.connected == ["txn-markers"]

    in_cluster(tmp_path, scenario)


async def begin(host: SimulatedHost, *partitions: int) -> Producer:
    await host.ask(FindCoordinatorRequest(key=TXN, key_type=1), 3)
    while True:
        begun = await host.ask(InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=60_000), 4)
        if begun.error_code == ErrorCode.NONE:
            break
    producer = Producer(begun.producer_id, begun.producer_epoch)
    topics = [AddPartitionsToTxnTopic(name="t", partitions=list(partitions))]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=topics,
    )
    added = await host.ask(request, 3)
    results = added.results_by_topic_v3_and_below[0].results_by_partition
    assert {result.partition_error_code for result in results} == {ErrorCode.NONE}
    return producer


def test_a_transaction_is_verified_by_its_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", 4)
        producer = await begin(cluster.hosts[2], 0, 1)
        cluster.lead(TRANSACTION_STATE, [2, 2])
        coordinator = cluster.hosts[2].server.broker.transactions
        verifier = Verifier(coordinator.partition_for, cluster.cache, cluster.connect)

        async def kinds(producer: Producer, *partitions: int) -> dict[int, type[Exception]]:
            found = await verifier.verify(TXN, producer, [("t", index) for index in partitions])
            return {index: type(error) for (_, index), error in found.items()}

        assert await kinds(producer, 0, 1) == {}
        assert await kinds(producer, 0, 2) == {2: TransactionAbortableError}
        assert await kinds(producer._replace(epoch=9), 0) == {0: InvalidProducerEpochError}
        assert await kinds(producer._replace(id=9), 0) == {0: InvalidProducerIdMappingError}
        # The other broker is no coordinator of it.
        cluster.lead(TRANSACTION_STATE, [1, 1])
        assert await kinds(producer, 0) == {0: NotCoordinatorError}
        cluster.lead(TRANSACTION_STATE, [NO_LEADER, NO_LEADER])
        assert await kinds(producer, 0) == {0: CoordinatorNotAvailableError}
        cluster.lead(TRANSACTION_STATE, [2, 2])
        await cluster.hosts[2].stop()
        assert await kinds(producer, 0) == {0: CoordinatorNotAvailableError}
        await cluster.hosts[2].start()
        await verifier.close()

    in_cluster(tmp_path, scenario)


class SlowVerifier:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Unverified] = asyncio.get_running_loop().create_future()
        self.asked: list[TopicPartition] = []

    async def verify(self, transactional_id: str, producer: Producer, partitions: Any) -> Unverified:
        self.asked += partitions
        return await self.answer


class Asking:
    """A broker that has to ask another one about batches for a partition, because it coordinates no transactions."""

    def __init__(self, server: Server, partition: Partition) -> None:
        self.server = server
        self.partition = partition
        self.producer = Producer(70, 0)
        self.verifier = SlowVerifier()
        self.admission = Admission(server.broker.transactions.coordinator, lambda: True, self.verifier)
        self.markers = server.broker.transactions.markers
        self.markers.on_marker = self.admission.marked

    @classmethod
    async def begin(cls, cluster: Cluster) -> Asking:
        await cluster.create("t", 1)
        server = cluster.hosts[1].server
        partition = server.replicas.get("t", 0)
        assert partition is not None
        return cls(server, partition)


@pytest.mark.parametrize("what", ["covered", "not covered", "a marker comes", "another leader epoch"])
def test_an_answer_holds_for_the_append_that_follows_unless_a_marker_came(tmp_path: Path, what: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        asks = await Asking.begin(cluster)
        assert asks.admission.must_ask(TXN, asks.producer, asks.partition)
        outcome: list[Exception | None] = []

        async def append() -> None:
            async with asks.admission.ahead(TXN, asks.producer, [asks.partition]) as answered:
                try:
                    asks.admission.check(TXN, asks.producer, asks.partition, answered, abortable=True)
                    outcome.append(None)
                except Exception as error:
                    outcome.append(error)

        appending = asyncio.ensure_future(append())
        await asyncio.sleep(0.1)
        assert asks.verifier.asked == [("t", 0)]
        if what == "a marker comes":
            await asks.markers.write("t", 0, Marker(70, 0, False, 1))
        if what == "another leader epoch":
            state = asks.server.store.state.topics["t"].partitions[0]
            asks.partition.become(
                replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
            )
        asks.verifier.answer.set_result({("t", 0): TransactionAbortableError()} if what == "not covered" else {})
        await appending
        expected: dict[str, type[Exception] | None] = {
            "covered": None, "not covered": TransactionAbortableError,
            "a marker comes": NotCoordinatorError, "another leader epoch": NotCoordinatorError,
        }  # fmt: skip
        assert [error and type(error) for error in outcome] == [expected[what]]
        with pytest.raises(NotCoordinatorError):
            asks.admission.check(TXN, asks.producer, asks.partition, abortable=True)

    in_cluster(tmp_path, scenario)


def test_an_answer_is_that_of_one_request_alone(tmp_path: Path) -> None:
    """A marker makes the first request's answer void; a second request that asks later has nothing to say for it."""

    async def scenario(cluster: Cluster) -> None:
        asks = await Asking.begin(cluster)
        first, second = (asks.admission.ahead(TXN, asks.producer, [asks.partition]) for _ in range(2))
        early = asyncio.ensure_future(first.__aenter__())
        await asyncio.sleep(0.1)
        await asks.markers.write("t", 0, Marker(70, 0, False, 1))
        late = asyncio.ensure_future(second.__aenter__())
        await asyncio.sleep(0.1)
        asks.verifier.answer.set_result({})
        void, valid = await early, await late
        with pytest.raises(NotCoordinatorError):
            asks.admission.check(TXN, asks.producer, asks.partition, void, abortable=True)
        await first.__aexit__(None, None, None)
        asks.admission.check(TXN, asks.producer, asks.partition, valid, abortable=True)
        await second.__aexit__(None, None, None)
        with pytest.raises(NotCoordinatorError):
            asks.admission.check(TXN, asks.producer, asks.partition, valid, abortable=True)

    in_cluster(tmp_path, scenario)


def test_a_batch_that_could_not_be_verified_is_not_overtaken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer could send it in vain until its delivery times out."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("t", 1)
        host = cluster.hosts[1]
        producer = await begin(host, 0)

        async def produced(sequence: int) -> ErrorCode:
            records = encode_batch(
                [Record(0, 0, b"key", b"%d" % sequence)],
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
            request = ProduceRequest(transactional_id=TXN, acks=-1, timeout_ms=10_000, topic_data=[data])
            response = await host.ask(request, 9)
            return ErrorCode(response.responses[0].partition_responses[0].error_code)

        def loads(*arguments: Any) -> None:
            raise CoordinatorLoadInProgressError

        with monkeypatch.context() as patch:
            patch.setattr(host.server.broker.transactions.coordinator, "verify", loads)
            assert await produced(0) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await produced(1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [await produced(sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2

    in_cluster(tmp_path, scenario)

"""Test groups and transactions of a cluster of our brokers, while brokers stop and lose their sessions.

A committed offset is not lost. A transaction is seen as a whole, once, if its commit was acknowledged; not at all,
if it was aborted; and as a whole or not at all, if the answer to its commit was lost.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.model import NO_LEADER
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.end_txn import EndTxnRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from kafkalog.protocol.schema import Request
from tests.simulation import virtual_time
from tests.simulation.host import SimulatedHost
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble
from tests.support.amount import mostly_exhaustive
from tests.support.transactions import READ_COMMITTED, committed_in
from tests.support.wire import batch, fetch_request, produce_request

IDS = (1, 2, 3)
TOPIC = "data"
PARTITIONS = 3
GROUPS = 2
PRODUCERS = 2
WORK_S = 25.0
DEADLINE_S = 600.0
PAUSE_S = 0.2
SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "200",
    "controlled.shutdown.retry.backoff.ms": "200",
    "leader.imbalance.check.interval.seconds": "5",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "min.insync.replicas": "2",
}
GROUP, TRANSACTION = 0, 1


class Cluster:
    """Three brokers on simulated time.

    Attributes:
        running: the brokers that run.
        ended: set when faults and clients should come to their end.
    """

    def __init__(self, loop: VirtualLoop, directory: Path, seed: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        ensemble = SimulatedEnsemble(loop, self.chance)
        network = SimulatedNetwork(loop, self.chance)
        self.hosts = {
            number: SimulatedHost(
                network,
                f"host{number}",
                directory / str(number),
                {"broker.id": str(number), **SETTINGS},
                random.Random(seed + number),
                ensemble,
            )
            for number in IDS
        }
        self.running: set[int] = set()
        self.ended = asyncio.Event()

    async def start(self) -> None:
        for number, host in self.hosts.items():
            await host.start()
            self.running.add(number)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=3)], timeout_ms=20_000
        )
        while True:
            answer = await self.anyone().ask(request, 7)
            if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await asyncio.sleep(PAUSE_S)

    async def stop(self) -> None:
        for number in sorted(self.running):
            await self.hosts[number].stop()

    def anyone(self) -> SimulatedHost:
        return self.hosts[self.chance.choice(sorted(self.running))]

    async def disturb(self) -> None:
        """Stop and start brokers, and cut them off from ZooKeeper, one at a time."""
        while not self.ended.is_set():
            await asyncio.sleep(self.chance.uniform(1, 8))
            number = self.chance.choice(IDS)
            host = self.hosts[number]
            if self.chance.random() < 0.5:
                self.running.discard(number)
                await host.stop()
                await asyncio.sleep(self.chance.uniform(0, 8))
                await host.start()
                self.running.add(number)
            else:
                host.session.disconnect()
                await asyncio.sleep(self.chance.uniform(0, 12))
                host.session.reconnect()

    async def coordinator(self, kind: int, key: str) -> SimulatedHost:
        answer = await self.anyone().ask(FindCoordinatorRequest(key=key, key_type=kind), 3)
        check(answer.error_code)
        return self.hosts[answer.node_id]

    def leader(self, index: int) -> SimulatedHost:
        state = self.anyone().server.store.state.partition(TOPIC, index)
        if state is None or state.leader == NO_LEADER:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        return self.hosts[state.leader]


def check(code: int) -> None:
    if code:
        raise error_for(code)


async def ask(host: SimulatedHost, request: Request, version: int) -> Any:
    return await asyncio.wait_for(host.link.send(request, max_version=version, timeout=20), 30)


class Committer:
    """Commits growing offsets of one group, and looks whether they last."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self.acknowledged = self.attempted = 0

    async def work(self) -> None:
        while not self.cluster.ended.is_set():
            try:
                await self.commit()
                await self.look()
            except (KafkaError, LinkError, TimeoutError):
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(PAUSE_S)

    async def commit(self) -> None:
        coordinator = await self.cluster.coordinator(GROUP, self.group)
        self.attempted += 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.attempted)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        answer = await ask(coordinator, request, 8)
        check(answer.topics[0].partitions[0].error_code)
        self.acknowledged = self.attempted

    async def look(self) -> None:
        """Fetch the offset. A coordinator that was replaced does not answer any more: its lease has ended before."""
        before = self.acknowledged
        coordinator = await self.cluster.coordinator(GROUP, self.group)
        found = await self.fetch(coordinator)
        assert before <= found <= self.attempted, f"{found} of {coordinator.name} though {before} was acknowledged"

    async def fetch(self, coordinator: SimulatedHost) -> int:
        wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=[wanted])])
        answer = (await ask(coordinator, request, 8)).groups[0]
        check(answer.error_code)
        check(answer.topics[0].partitions[0].error_code)
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


class Transactor:
    """Writes to all partitions in each transaction.

    Attributes:
        committed: the transactions whose commit was acknowledged; `unknown`: those whose end was not answered.
    """

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.cluster = cluster
        self.id = transactional_id
        self.committed: set[str] = set()
        self.unknown: set[str] = set()
        self.producer: tuple[int, int] | None = None
        self.sequences: Counter[int] = Counter()
        self.number = 0

    async def work(self) -> None:
        while not self.cluster.ended.is_set():
            await asyncio.sleep(PAUSE_S)
            try:
                await self.transact()
            except (KafkaError, LinkError, TimeoutError):
                # Whatever is open is aborted by the next initialization.
                self.producer = None
                await asyncio.sleep(PAUSE_S)
        # So that nothing stays open.
        self.producer = None
        while self.producer is None:
            try:
                await self.initialize()
            except (KafkaError, LinkError, TimeoutError):
                await asyncio.sleep(PAUSE_S)

    async def initialize(self) -> None:
        coordinator = await self.cluster.coordinator(TRANSACTION, self.id)
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000)
        answer = await ask(coordinator, request, 4)
        check(answer.error_code)
        self.producer = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    async def transact(self) -> None:
        if self.producer is None:
            await self.initialize()
        assert self.producer is not None
        self.number += 1
        value, commits = f"{self.id}:{self.number}", self.cluster.chance.random() < 0.7
        await self.add()
        for index in range(PARTITIONS):
            await self.write(index, value.encode())
        coordinator = await self.cluster.coordinator(TRANSACTION, self.id)
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commits,
        )
        if commits:
            self.unknown.add(value)
        answer = await ask(coordinator, request, 3)
        check(answer.error_code)
        if commits:
            self.unknown.discard(value)
            self.committed.add(value)

    async def add(self) -> None:
        assert self.producer is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(range(PARTITIONS)))],
        )
        while True:
            coordinator = await self.cluster.coordinator(TRANSACTION, self.id)
            answer = await ask(coordinator, request, 3)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                check(code)
                return
            # The last one is being completed.
            await asyncio.sleep(PAUSE_S / 10)

    async def write(self, index: int, value: bytes) -> None:
        assert self.producer is not None
        records = batch(
            [value],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequences[index],
            is_transactional=True,
        )
        request = produce_request(TOPIC, {index: records}, acks=-1)
        request.transactional_id = self.id
        for _ in range(20):
            answer = await ask(self.cluster.leader(index), request, 11)
            code = answer.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                self.sequences[index] += 1
                return
            if not error_for(code).retriable:
                break
            await asyncio.sleep(PAUSE_S)
        raise error_for(code)


class TransactionIsOpenError(Exception):
    """A transaction is open in a partition, though all producers have ended theirs."""


async def read_committed(cluster: Cluster, index: int) -> list[str]:
    offset, stable = 0, 1
    aborted: set[int] = set()
    values: list[bytes] = []
    while offset < stable:
        request = fetch_request(TOPIC, {index: offset}, isolation_level=READ_COMMITTED)
        data = (await ask(cluster.leader(index), request, 12)).responses[0].partitions[0]
        check(data.error_code)
        stable = data.last_stable_offset
        if stable != data.high_watermark:
            raise TransactionIsOpenError
        found, following = committed_in(data, aborted)
        values += found
        offset = offset if following is None else following
    return [value.decode() for value in values]


async def live(cluster: Cluster) -> None:
    await cluster.start()
    committers = [Committer(cluster, f"group-{number}") for number in range(GROUPS)]
    transactors = [Transactor(cluster, f"txn-{number}") for number in range(PRODUCERS)]
    works = [each.work() for each in committers] + [each.work() for each in transactors]
    work = [asyncio.ensure_future(each) for each in works]
    disturbance = asyncio.ensure_future(cluster.disturb())
    await asyncio.sleep(WORK_S)
    cluster.ended.set()
    await asyncio.wait_for(disturbance, DEADLINE_S)
    await asyncio.wait_for(asyncio.gather(*work), DEADLINE_S)
    for committer in committers:
        assert committer.acknowledged > 5, "something was done"
        await again(cluster, committer.look)
    assert sum(len(each.committed) for each in transactors) > 8
    seen = [await again(cluster, lambda index=index: read_committed(cluster, index)) for index in range(PARTITIONS)]
    committed = set.union(*(each.committed for each in transactors))
    unknown = set.union(*(each.unknown for each in transactors))
    for values in seen:
        assert len(set(values)) == len(values), "nothing comes twice"
        assert committed <= set(values) <= committed | unknown
    assert len({frozenset(values) for values in seen}) == 1, "a transaction is seen in all partitions or in none"
    await cluster.stop()


async def again(cluster: Cluster, work: Any) -> Any:
    """Do what can be done once leaders are elected and transactions completed."""
    end = cluster.loop.time() + DEADLINE_S
    while True:
        try:
            return await work()
        except (KafkaError, LinkError, TimeoutError, TransactionIsOpenError):
            if cluster.loop.time() > end:
                raise
            await asyncio.sleep(PAUSE_S)


@pytest.mark.parametrize("seed", mostly_exhaustive(range(20), 1))
def test_offsets_and_transactions_survive_changes_of_their_coordinators(tmp_path: Path, seed: int) -> None:
    async def main(loop: VirtualLoop) -> None:
        await asyncio.wait_for(live(Cluster(loop, tmp_path, seed)), 3600)

    virtual_time.run(main)

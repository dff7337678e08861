"""Members of a cluster on simulated hosts, with a controller that a test plays."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.metadata.model import BrokerRegistration, PartitionState
from broker.metadata.znodes import brokers, controller, paths, topics
from broker.metadata.znodes.topics import StateNode
from broker.replica.partition import Partition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkalog.protocol.messages.produce import ProduceResponse
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkalog.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.simulation import virtual_time
from tests.simulation.host import SimulatedHost
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession
from tests.support.wire import batch, produce_request

IDS = (1, 2, 3)
NOBODY = 99
"""The id of the controller in ZooKeeper, which the test is."""
DEADLINE_S = 300.0
SETTINGS = {
    "zookeeper.connect": "zookeeper:2181/kafka",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "200",
    "controlled.shutdown.enable": "false",
    "offsets.topic.replication.factor": "1",
    # The controller that a test plays does not write down all that it tells.
    "kafkalog.role.check.interval.ms": "-1",
}
TOPIC_ID = uuid.UUID(int=77)
KEY = tuple[str, int]


class Cluster:
    """Three members, and the test as their controller.

    Attributes:
        hosts: the members by id.
        assigned: the state of each partition, as the controller decided it.
        epoch: the controller's epoch.
        topic_id: the id that the controller gives and tells.
    """

    def __init__(
        self, loop: VirtualLoop, directory: Path, protocol: str, seed: int, settings: Mapping[str, str]
    ) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.network = SimulatedNetwork(loop, self.chance)
        self.ensemble = SimulatedEnsemble(loop, self.chance)
        self.hosts = {
            number: SimulatedHost(
                self.network,
                f"host{number}",
                directory / str(number),
                {
                    "broker.id": str(number),
                    "broker.rack": f"rack{number}",
                    "inter.broker.protocol.version": protocol,
                    **SETTINGS,
                    **settings,
                },
                random.Random(seed + number),
                self.ensemble,
            )
            for number in IDS
        }
        self.zookeeper = SimulatedSession(self.ensemble, 6.0)
        self.assigned: dict[KEY, PartitionState] = {}
        self.epoch = 1
        self.topic_id = TOPIC_ID

    # -- the controller

    async def hold_office(self) -> None:
        """Become the controller, before a member does."""
        await self.zookeeper.create(paths.CONTROLLER, controller.encode(NOBODY, 0))

    async def alive(self) -> dict[int, BrokerRegistration]:
        """Return the registered brokers."""
        found = {}
        for name in await self.zookeeper.children(paths.BROKER_IDS):
            node = await self.zookeeper.get(paths.broker_id(int(name)))
            if node is not None and node.data:
                found[int(name)] = brokers.decode(int(name), node.data, node.stat.created)
        return found

    async def tell_metadata(self, *keys: KEY, to: Iterable[int] | None = None, version: int = 7) -> None:
        """Send UpdateMetadata with the live brokers and these partitions, to all live brokers unless named."""
        alive = await self.alive()
        live = [
            UpdateMetadataBroker(
                id=each.broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(port=at.port, host=at.host, listener=at.name, security_protocol=0)
                    for at in each.endpoints
                ],
                rack=each.rack,
            )
            for each in alive.values()
        ]
        told: dict[str, UpdateMetadataTopicState] = {}
        for topic, index in keys:
            state = self.assigned[topic, index]
            told.setdefault(
                topic, UpdateMetadataTopicState(topic_name=topic, topic_id=self.topic_id)
            ).partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=index,
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    zk_version=state.partition_epoch,
                    replicas=list(state.replicas),
                )
            )
        for number in alive if to is None else to:
            request = UpdateMetadataRequest(
                controller_id=1,
                controller_epoch=self.epoch,
                broker_epoch=alive[number].epoch,
                topic_states=list(told.values()),
                live_brokers=live,
            )
            answer = await self.hosts[number].ask(request, version)
            self._is_taken(answer.error_code, number, request.broker_epoch)

    def _is_taken(self, code: int, number: int, epoch: int) -> bool:
        """Return whether a broker has taken a request of the controller.

        One whose lease has ended refuses it. It is told of everything when it is registered again.
        """
        if code == ErrorCode.STALE_BROKER_EPOCH and self.hosts[number].server.registration.epoch != epoch:
            return False
        assert code == 0, ErrorCode(code)
        return True

    async def tell_roles(
        self, *keys: KEY, to: Iterable[int] | None = None, is_new: bool = False, version: int = 5
    ) -> dict[int, list[int]]:
        """Send LeaderAndIsr to the live replicas, or those named; return the error of each partition."""
        alive = await self.alive()
        found: dict[int, list[int]] = {}
        for number in alive if to is None else to:
            states = [
                LeaderAndIsrPartitionState(
                    partition_index=index,
                    controller_epoch=self.assigned[topic, index].controller_epoch,
                    leader=self.assigned[topic, index].leader,
                    leader_epoch=self.assigned[topic, index].leader_epoch,
                    isr=list(self.assigned[topic, index].isr),
                    partition_epoch=self.assigned[topic, index].partition_epoch,
                    replicas=list(self.assigned[topic, index].replicas),
                    is_new=is_new,
                )
                for topic, index in keys
                if number in self.assigned[topic, index].replicas
            ]
            if not states:
                continue
            topic = LeaderAndIsrTopicState(topic_name=keys[0][0], topic_id=self.topic_id, partition_states=states)
            request = LeaderAndIsrRequest(
                controller_id=1,
                controller_epoch=self.epoch,
                broker_epoch=alive[number].epoch,
                topic_states=[topic],
            )
            answer = await self.hosts[number].ask(request, version)
            if not self._is_taken(answer.error_code, number, request.broker_epoch):
                continue
            found[number] = [each.error_code for each in answer.topics[0].partition_errors]
        return found

    async def stop_replica(self, topic: str, index: int, broker: int, *, epoch: int, delete: bool) -> int:
        """Send StopReplica; return the error of the partition."""
        state = StopReplicaPartitionState(partition_index=index, leader_epoch=epoch, delete_partition=delete)
        request = StopReplicaRequest(
            controller_id=1,
            controller_epoch=self.epoch,
            broker_epoch=(await self.alive())[broker].epoch,
            topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=[state])],
        )
        answer = await self.hosts[broker].ask(request, 3)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        code: int = answer.partition_errors[0].error_code
        return code

    async def create(
        self,
        topic: str,
        replicas: tuple[int, ...],
        config: Mapping[str, str] | None = None,
        *,
        tell_metadata: bool = True,
    ) -> Partition:
        """Make a topic of one partition; return the leader's."""
        if config:
            await self._put(paths.config("topics", topic), _config_node(config))
        assignment = {0: topics.Assignment(replicas)}
        await self._put(paths.topic(topic), topics.encode_topic(topics.TopicNode(self.topic_id, assignment)))
        state = PartitionState(replicas, replicas, replicas[0], 0, 0, self.epoch)
        self.assigned[topic, 0] = state
        await self._put(paths.partition_state(topic, 0), topics.encode_state(topics.parted(state)[1]))
        await self.tell_roles((topic, 0), is_new=True)
        if tell_metadata:
            await self.tell_metadata((topic, 0))
        return self.partition(replicas[0], topic)

    async def elect(self, topic: str, leader: int, isr: tuple[int, ...], *, to: Iterable[int] | None = None) -> None:
        """Make another broker the leader, and tell the brokers."""
        found = await self.state(topic)
        state = replace(
            self.assigned[topic, 0],
            leader=leader,
            isr=isr,
            leader_epoch=found.leader_epoch + 1,
            partition_epoch=found.partition_epoch + 1,
            controller_epoch=self.epoch,
        )
        self.assigned[topic, 0] = state
        data = topics.encode_state(topics.parted(state)[1])
        await self.zookeeper.set(paths.partition_state(topic, 0), data, found.partition_epoch)
        live = [number for number in await self.alive() if to is None or number in to]
        await self.tell_metadata((topic, 0), to=live)
        await self.tell_roles((topic, 0), to=[number for number in live if number in state.replicas])

    async def state(self, topic: str) -> StateNode:
        """Return the state of a topic's partition in ZooKeeper."""
        node = await self.zookeeper.get(paths.partition_state(topic, 0))
        assert node is not None
        return topics.decode_state(topic, 0, node.data, node.stat.version)

    async def _put(self, path: str, data: bytes) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            above = "/" + "/".join(parts[:depth])
            if await self.zookeeper.get(above) is None:
                await self.zookeeper.create(above)
        await self.zookeeper.create(path, data)

    # -- what there is

    def partition(self, broker: int, topic: str) -> Partition:
        found = self.hosts[broker].server.replicas.get(topic, 0)
        assert found is not None, f"{topic} is not on {broker}"
        return found

    def log(self, broker: int, topic: str) -> bytes:
        """Return the bytes of a replica's segments, one after the other."""
        directory = self.partition(broker, topic).log.dir
        return b"".join(file.read_bytes() for file in sorted(directory.glob("*.log")))

    async def produce(self, broker: int, topic: str, *values: bytes, acks: int = -1) -> int:
        """Produce a batch; return the error."""
        response: ProduceResponse = await self.hosts[broker].ask(
            produce_request(topic, {0: batch(values, timestamp=self.hosts[broker].server.runtime.now_ms())}, acks), 9
        )
        return response.responses[0].partition_responses[0].error_code

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition, on simulated time."""
        end = self.loop.time() + DEADLINE_S
        while not holds():
            assert self.loop.time() < end, f"in vain: {what}"
            await asyncio.sleep(0.02)

    async def until_isr(self, topic: str, isr: Iterable[int]) -> None:
        """Wait until ZooKeeper has this ISR."""
        end = self.loop.time() + DEADLINE_S
        while set((await self.state(topic)).isr) != set(isr):
            assert self.loop.time() < end, f"the ISR is {(await self.state(topic)).isr}, not {tuple(isr)}"
            await asyncio.sleep(0.1)

    async def until_equal(self, topic: str, *of: int) -> None:
        """Wait until the replicas have the same bytes and the same high watermark."""
        await self.until(
            lambda: (
                len({self.log(broker, topic) for broker in of}) == 1
                and len({self.partition(broker, topic).high_watermark for broker in of}) == 1
            ),
            f"the replicas {of} of {topic} are equal",
        )


def _config_node(config: Mapping[str, str]) -> bytes:
    from broker.metadata.znodes import configs

    return configs.encode(config)


def with_cluster(
    directory: Path,
    work: Callable[[Cluster], Coroutine[Any, Any, None]],
    protocol: str = "2.6",
    seed: int = 1,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run `work` with three members that know of each other."""

    async def main(loop: VirtualLoop) -> None:
        cluster = Cluster(loop, directory, protocol, seed, settings or {})
        # Without this the members would elect one of them.
        await cluster.hold_office()
        for host in cluster.hosts.values():
            await host.start()
        await cluster.tell_metadata()
        await work(cluster)
        for host in cluster.hosts.values():
            await host.link.close()
            await host.stop()

    virtual_time.run(main)

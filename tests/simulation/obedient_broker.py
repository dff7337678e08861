"""A broker that has no logs: it registers, stands for election, and carries out what the controller tells it.

It checks the epochs of requests as a real broker does, and remembers the roles that it was given. As a leader it takes
followers into the ISR that are alive, after a while, by AlterPartition.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

from broker.config.listeners import Endpoint
from broker.config.protocol_version import ProtocolVersion
from broker.controller.cluster.controller import Balancing, ClusterController
from broker.controller.cluster.events.isr import WantedIsr
from broker.controller.cluster.model.context import PartitionKey, Settings
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import brokers as broker_nodes
from broker.metadata.znodes import paths
from broker.metadata.znodes.topics import StateNode
from broker.net.links.link import Link, LinkSettings
from broker.net.transport.interface import Transport
from broker.runtime import Runtime
from broker.zookeeper.interface import (
    NodeExistsError,
    SessionState,
    WatchEvent,
    ZooKeeperError,
)
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import decode_message, decode_request_header, encode_response
from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkalog.protocol.schema import Request
from tests.simulation.host import NoCollector
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import EPOCH_MS
from tests.simulation.workers import SimulatedWorkers
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

PORT = 9092
LISTENER = "PLAINTEXT"
SESSION_S = 6.0
JOIN_S = 0.5
"""The time in which a follower catches up."""
SERVED = (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest, ApiVersionsRequest)

Told = Callable[[int, PartitionKey, int, int], None]
"""Called with broker, partition, leader and leader epoch of each role that is taken."""


class ObedientBroker:
    """See the module.

    Args:
        told: called with each role.
        peers: all brokers, by which the active controller is found.
        marked: whether the registration says that the broker watches it.

    Attributes:
        roles: the leader, leader epoch, partition epoch and ISR of each partition that it holds.
        metadata: the leader and the ISR of each partition, as the controller told.
        live: the live brokers, as the controller told.
        lost: partitions whose log directory has failed.
    """

    def __init__(
        self,
        broker_id: int,
        ensemble: SimulatedEnsemble,
        network: SimulatedNetwork,
        chance: random.Random,
        *,
        told: Told,
        peers: dict[int, ObedientBroker],
        protocol: str = "3.9",
        marked: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.roles: dict[PartitionKey, LeaderAndIsrPartitionState] = {}
        self.metadata: dict[PartitionKey, tuple[int, tuple[int, ...]]] = {}
        self.live: set[int] = set()
        self.lost: set[PartitionKey] = set()
        self.epoch = 0
        self.is_running = False
        self._ensemble = ensemble
        self._network = network
        self._chance = chance
        self._told = told
        self._peers = peers
        self._marked = marked
        self._controller_epoch = 0
        self._settings = Settings(broker_id, ProtocolVersion.parse(protocol), LISTENER)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._accepted: list[Transport] = []

    @property
    def name(self) -> str:
        return f"host{self.broker_id}"

    # The process

    async def start(self) -> None:
        loop = self._network.loop
        self.is_running = True
        self.session = SimulatedSession(self._ensemble, SESSION_S)
        self.session.listen(self._session_changed)
        self._listener = self._network.host(self.name).listen(Endpoint(LISTENER, self.name, PORT), 10)
        self._listener.watch(self._accept)
        self.roles, self.metadata, self.live = {}, {}, set()
        self._controller_epoch = 0
        runtime = Runtime(
            loop,
            SimulatedWorkers(loop, self._chance),
            self._network.host(self.name),
            now_ms=lambda: EPOCH_MS + int(loop.time() * 1000),
            random=self._chance,
            seconds=loop.time,
            collector=NoCollector(),
        )
        self.controller = ClusterController(
            self._settings, self.session, self._connect, runtime, Balancing(interval_s=10)
        )
        await self._register()
        self.controller.start()

    async def stop(self) -> None:
        """Stop as if the process were killed: the session expires later."""
        self.is_running = False
        self.session.disconnect()
        self._listener.close()
        for transport in self._accepted:
            transport.close()
        self._accepted.clear()
        await self.controller.stop()
        for task in list(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Stop, and end the session."""
        await self.stop()
        await self.session.close()

    async def _register(self) -> None:
        endpoints = (Endpoint(LISTENER, self.name, PORT),)
        data = broker_nodes.encode(BrokerRegistration(self.broker_id, endpoints, watches_itself=self._marked), 0)
        path = paths.broker_id(self.broker_id)
        while True:
            try:
                await self.session.create(path, data, is_ephemeral=True)
            except NodeExistsError:
                # That of the former process, whose session has not expired yet.
                present = await self.session.get(path)
                if present is None or present.stat.owner != self.session.session_id:
                    await asyncio.sleep(0.5)
                    continue
            except ZooKeeperError:
                await asyncio.sleep(0.1)
                continue
            try:
                node = await self.session.get(path, self._registration_changed)
            except ZooKeeperError:
                continue
            if node is not None and node.stat.owner == self.session.session_id:
                self.epoch = node.stat.created
                return

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self.is_running:
            self._spawn(self._again())

    def _registration_changed(self, event: WatchEvent) -> None:
        if self.is_running:
            self._spawn(self._again())

    async def _again(self) -> None:
        former = self.epoch
        await self._register()
        if self.epoch != former:
            # The controller gives it its roles anew.
            self.roles.clear()
        self.controller.registered()

    def _spawn(self, work: Any) -> None:
        task = self._network.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _connect(self, broker: BrokerRegistration, purpose: str) -> Link:
        endpoint = broker.endpoint(LISTENER)
        assert endpoint is not None
        loop = self._network.loop
        return Link(
            endpoint.host,
            endpoint.port,
            LinkSettings(purpose),
            loop=loop,
            workers=SimulatedWorkers(loop, self._chance),
            chance=self._chance,
            network=self._network.host(self.name),
        )

    # Requests

    def _accept(self) -> None:
        try:
            incoming = self._listener.accept()
        except BlockingIOError:
            return
        transport = incoming.open(0, 0)
        self._accepted.append(transport)
        received, unsent = bytearray(), bytearray()

        def write() -> None:
            while unsent:
                try:
                    count = transport.send(bytes(unsent))
                except BlockingIOError:
                    transport.watch_writable(write)
                    return
                del unsent[:count]
            transport.unwatch_writable()

        def read() -> None:
            window = bytearray(1 << 16)
            try:
                count = transport.recv_into(memoryview(window))
            except BlockingIOError:
                return
            if not count or not self.is_running:
                transport.close()
                return
            received.extend(window[:count])
            while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4]):
                size = int.from_bytes(received[:4])
                frame = bytes(received[4 : 4 + size])
                del received[: 4 + size]
                unsent.extend(self._answer(frame))
            write()

        transport.watch_readable(read)

    def _answer(self, frame: bytes) -> bytes:
        header, body = decode_request_header(frame)
        kind: type[Request] = next(each for each in SERVED if each.api_key == header.api_key)
        message, _ = decode_message(kind, header.api_version, frame, body)
        version = header.api_version
        match message:
            case LeaderAndIsrRequest():
                response: Any = self._lead_or_follow(message, version)
            case StopReplicaRequest():
                response = self._stop_replicas(message)
            case UpdateMetadataRequest():
                response = self._inform(message)
            case _:
                keys = [
                    ApiVersion(api_key=each.api_key, min_version=0, max_version=ApiKey(each.api_key).max_version)
                    for each in SERVED
                ]
                response = ApiVersionsResponse(api_keys=keys)
        return b"".join(bytes(chunk) for chunk in encode_response(response, version, header.correlation_id))  # type: ignore[arg-type]

    def _refusal(self, message: Any) -> ErrorCode:
        if message.broker_epoch < self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if message.controller_epoch < self._controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._controller_epoch = message.controller_epoch
        return ErrorCode.NONE

    def _lead_or_follow(self, message: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        refusal = self._refusal(message)
        if refusal:
            return LeaderAndIsrResponse(error_code=refusal)
        answer = LeaderAndIsrResponse()
        for topic in message.topic_states:
            errors = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            for each in topic.partition_states:
                key = topic.topic_name, each.partition_index
                error = self._take_role(key, each)
                errors.partition_errors.append(
                    LeaderAndIsrPartitionError(topic_name=topic.topic_name, partition_index=key[1], error_code=error)
                )
            if version >= 5:
                answer.topics.append(errors)
            else:
                answer.partition_errors += errors.partition_errors
        return answer

    def _take_role(self, key: PartitionKey, told: LeaderAndIsrPartitionState) -> ErrorCode:
        if key in self.lost:
            return ErrorCode.KAFKA_STORAGE_ERROR
        present = self.roles.get(key)
        if present is not None and told.leader_epoch <= present.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.roles[key] = told
        self._told(self.broker_id, key, told.leader, told.leader_epoch)
        if told.leader == self.broker_id:
            self._spawn(self._grow(key, told.leader_epoch))
        return ErrorCode.NONE

    def _stop_replicas(self, message: StopReplicaRequest) -> StopReplicaResponse:
        refusal = self._refusal(message)
        if refusal:
            return StopReplicaResponse(error_code=refusal)
        answer = StopReplicaResponse()
        for topic in message.topic_states:
            for each in topic.partition_states:
                key = topic.topic_name, each.partition_index
                present = self.roles.get(key)
                is_fenced = each.leader_epoch >= 0 and present is not None and each.leader_epoch < present.leader_epoch
                if not is_fenced:
                    self.roles.pop(key, None)
                error = ErrorCode.FENCED_LEADER_EPOCH if is_fenced else ErrorCode.NONE
                answer.partition_errors.append(
                    StopReplicaPartitionError(topic_name=key[0], partition_index=key[1], error_code=error)
                )
        return answer

    def _inform(self, message: UpdateMetadataRequest) -> UpdateMetadataResponse:
        refusal = self._refusal(message)
        if refusal:
            return UpdateMetadataResponse(error_code=refusal)
        self.live = {broker.id for broker in message.live_brokers}
        for topic in message.topic_states:
            for each in topic.partition_states:
                key = topic.topic_name, each.partition_index
                if each.leader == -2:
                    self.metadata.pop(key, None)
                else:
                    self.metadata[key] = each.leader, tuple(each.isr)
        return UpdateMetadataResponse()

    # Leading

    async def _grow(self, key: PartitionKey, leader_epoch: int) -> None:
        """Take followers into the ISR as long as this is the leader of this epoch."""
        known: tuple[int, list[int]] | None = None
        while self.is_running:
            await asyncio.sleep(JOIN_S)
            role = self.roles.get(key)
            if role is None or role.leader_epoch != leader_epoch:
                return
            partition_epoch, isr = known or (role.partition_epoch, role.isr)
            joining = [
                each for each in role.replicas if each not in isr and each in self.live and self._follows(each, key)
            ]
            if not joining and not role.leader_recovery_state:
                continue
            controller = next(
                (each for each in self._peers.values() if each.is_running and each.controller.is_active), None
            )
            if controller is None:
                continue
            wanted = WantedIsr(leader_epoch, (*isr, *joining), partition_epoch)
            try:
                answer = await controller.controller.alter_partition(self.broker_id, self.epoch, {key: wanted})
            except KafkaError:
                continue
            if isinstance(state := answer[key], StateNode):
                known = state.partition_epoch, list(state.isr)

    def _follows(self, broker_id: int, key: PartitionKey) -> bool:
        peer = self._peers[broker_id]
        return peer.is_running and key in peer.roles and peer.roles[key].leader == self.broker_id


def running(brokers: Iterable[ObedientBroker]) -> list[ObedientBroker]:
    """Return the brokers whose process runs."""
    return [broker for broker in brokers if broker.is_running]

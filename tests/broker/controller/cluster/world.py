"""A cluster in memory for decisions of the controller: their effects are carried out on a tree of nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from broker.config.listeners import Endpoint
from broker.config.protocol_version import ProtocolVersion
from broker.controller.cluster.events import failover
from broker.controller.cluster.model import effects
from broker.controller.cluster.model.context import ControllerContext, PartitionKey, Settings
from broker.controller.cluster.model.effects import Outcome, Steps
from broker.controller.cluster.model.requests import ControlRequest
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import brokers, configs, paths, topics
from broker.metadata.znodes.topics import Assignment, StateNode, TopicNode
from broker.zookeeper.interface import Create, Delete, MultiError, Operation, SetData
from kafkalog.protocol.codec import decode_message, encode_message
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkalog.protocol.messages.stop_replica import StopReplicaRequest
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble

T = TypeVar("T")
LISTENER = "INSIDE"
EPOCH = 7
"""The epoch of the controller."""


class World:
    """See the module.

    Args:
        brokers: The registered brokers. The first one is the controller.
        protocol: `inter.broker.protocol.version`.
        settings: Further settings of the controller.

    Attributes:
        tree: the nodes.
        context: what the controller knows.
        sent: the requests that were sent, each decoded from the bytes of its version.
        watched: the paths that were read with a watch.
        connected: the brokers that have a channel, with their epochs.
        asked: whose logs' ends were asked for.
        ends: what brokers answer to that.
        on_write: called before each write, to change nodes first, as other brokers do.
    """

    def __init__(self, brokers: Iterable[int] = (1, 2, 3), protocol: str = "3.9", **settings: Any) -> None:
        loop = VirtualLoop()
        loop.close()
        self.tree = SimulatedEnsemble(loop, random.Random(1))
        self.chance = random.Random(2)
        ids = list(brokers)
        self.context = ControllerContext(Settings(ids[0], ProtocolVersion.parse(protocol), LISTENER, **settings), EPOCH)
        self.sent: list[ControlRequest] = []
        self.watched: set[str] = set()
        self.connected: dict[int, int] = {}
        self.on_write: Callable[[], None] = lambda: None
        self.asked: list[dict[int, list[PartitionKey]]] = []
        self.ends: dict[int, dict[PartitionKey, effects.LogEnd]] = {}
        for path in paths.PERSISTENT:
            self.make(path)
        for broker_id in ids:
            self.register(broker_id)

    # The tree

    def make(self, path: str, data: bytes = b"") -> None:
        """Create a node and its parents, or change it."""
        if self.tree.exists(path):
            self.tree.carry_out([SetData(path, data)], 0)
            return
        parent = path.rpartition("/")[0]
        if parent and not self.tree.exists(parent):
            self.make(parent)
        self.tree.carry_out([Create(path, data)], 0)

    def remove(self, path: str) -> None:
        """Delete a node with what is below it."""
        for name in self.tree.names(path):
            self.remove(f"{path}/{name}")
        self.tree.carry_out([Delete(path)], 0)

    def register(self, broker_id: int, **more: Any) -> None:
        endpoints = (
            Endpoint(LISTENER, f"host{broker_id}", 9000 + broker_id),
            Endpoint("SSL", f"host{broker_id}", 9100, "SSL"),
        )
        path = paths.broker_id(broker_id)
        if self.tree.exists(path):
            self.remove(path)
        self.make(path, brokers.encode(BrokerRegistration(broker_id, endpoints, f"rack{broker_id}", **more), 0))

    def deregister(self, broker_id: int) -> None:
        self.remove(paths.broker_id(broker_id))

    def make_topic(
        self, name: str, replicas: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], config: Mapping[str, str] = {}
    ) -> None:
        """Create a topic as any broker does."""
        assigned = replicas if isinstance(replicas, Mapping) else dict(enumerate(replicas))
        if config:
            self.make(paths.config("topics", name), configs.encode(config))
        node = TopicNode(None, {index: Assignment(tuple(brokers)) for index, brokers in assigned.items()})
        self.make(paths.topic(name), topics.encode_topic(node))

    def topic(self, name: str) -> TopicNode:
        """Return what the node of a topic says."""
        return topics.decode_topic(name, self.tree.read(paths.topic(name)).data)

    def state(self, name: str, index: int = 0) -> StateNode:
        """Return what the node of a partition's state says."""
        node = self.tree.read(paths.partition_state(name, index))
        return topics.decode_state(name, index, node.data, node.stat.version)

    def put_state(self, name: str, index: int, state: StateNode) -> None:
        """Write the state of a partition, as a leader before 2.7 does."""
        self.make(paths.partition_state(name, index), topics.encode_state(state))

    # Decisions

    def take_over(self) -> None:
        """Become the controller."""
        self.run(failover.take_over(self.context, self.chance))

    def run(self, steps: Steps[T]) -> T:
        """Carry out a decision; return its result."""
        brought: Any = None
        while True:
            try:
                effect = steps.send(brought)
            except StopIteration as end:
                result: T = end.value
                return result
            brought = self._carry_out(effect)

    def _carry_out(self, effect: effects.Effect) -> Any:
        match effect:
            case effects.Read(nodes, watch):
                self.watched.update(nodes if watch else ())
                return [self.tree.read(path) if self.tree.exists(path) else None for path in nodes]
            case effects.Children(nodes, watch):
                self.watched.update(nodes if watch else ())
                return [self.tree.names(path) if self.tree.exists(path) else [] for path in nodes]
            case effects.Write(groups):
                self.on_write()
                return [self._write(group) for group in groups]
            case effects.Unwatch(nodes):
                self.watched.difference_update(nodes)
            case effects.Connect(registered):
                self.connected.update({broker.broker_id: broker.epoch for broker in registered})
            case effects.Disconnect(broker_ids):
                for broker_id in broker_ids:
                    self.connected.pop(broker_id, None)
            case effects.Ask(wanted):
                self.asked.append({each: list(keys) for each, keys in wanted.items()})
                return self.ends
            case effects.Send(requests):
                self.sent += [as_received(request) for request in requests]
        return None

    def _write(self, group: Sequence[Operation]) -> Outcome:
        try:
            return self.tree.carry_out(group, 0)
        except MultiError as error:
            return error.reason

    # What was sent

    def forget(self) -> None:
        """Forget what was sent, and the changes that were noted."""
        self.sent.clear()
        self.context.forget_changes()

    def roles(self) -> dict[tuple[int, PartitionKey], tuple[int, int, tuple[int, ...], bool]]:
        """Return by broker and partition what LeaderAndIsr told last: leader, leader epoch, ISR, whether it is new."""
        found = {}
        for request in self.sent:
            if isinstance(request.message, LeaderAndIsrRequest):
                for topic in request.message.topic_states:
                    for each in topic.partition_states:
                        told = each.leader, each.leader_epoch, tuple(each.isr), each.is_new
                        found[request.broker_id, (topic.topic_name, each.partition_index)] = told
        return found

    def stops(self) -> list[tuple[int, PartitionKey, int, bool]]:
        """Return what StopReplica told: broker, partition, leader epoch, and whether the log is deleted."""
        return [
            (request.broker_id, (topic.topic_name, each.partition_index), each.leader_epoch, each.delete_partition)
            for request in self.sent
            if isinstance(request.message, StopReplicaRequest)
            for topic in request.message.topic_states
            for each in topic.partition_states
        ]

    def informed(self) -> dict[int, dict[PartitionKey, tuple[int, tuple[int, ...]]]]:
        """Return by broker what UpdateMetadata told last of each partition: leader and ISR."""
        found: dict[int, dict[PartitionKey, tuple[int, tuple[int, ...]]]] = {}
        for request in self.sent:
            if isinstance(request.message, UpdateMetadataRequest):
                told = found.setdefault(request.broker_id, {})
                for topic in request.message.topic_states:
                    for each in topic.partition_states:
                        told[topic.topic_name, each.partition_index] = each.leader, tuple(each.isr)
        return found

    def live_told(self, broker_id: int) -> set[int]:
        """Return the live brokers that a broker was told of last."""
        for request in reversed(self.sent):
            if request.broker_id == broker_id and isinstance(request.message, UpdateMetadataRequest):
                return {broker.id for broker in request.message.live_brokers}
        return set()


def as_received(request: ControlRequest) -> ControlRequest:
    message, _ = decode_message(
        type(request.message), request.version, encode_message(request.message, request.version)
    )
    return ControlRequest(request.broker_id, message, request.version, request.deleted)

"""The requests that tell brokers what was decided (Kafka: `ControllerBrokerRequestBatch`).

A batch collects what follows from one step. Each broker gets at most one LeaderAndIsr, one UpdateMetadata and one
StopReplica for it, in this order. Brokers that become leaders get theirs first.

Versions are not negotiated. They follow from `inter.broker.protocol.version`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from broker.config.protocol_version import Feature
from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.history import shortened
from broker.metadata.model import NO_TOPIC_ID, BrokerRegistration
from broker.metadata.znodes.topics import Assignment, StateNode
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kafkalog.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataChange,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

LEADER_DURING_DELETE = -2
"""The leader in UpdateMetadata of a partition that brokers are to forget."""
_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_GROUPED_LEADERS_FROM = 2
_GROUPED_STATES_FROM = 5
_GROUPED_STOPS_FROM = 1
_EPOCHS_IN_STOPS_FROM = 3

ControlMessage = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """One request to one broker."""

    broker_id: int
    message: ControlMessage
    version: int
    deleted: frozenset[PartitionKey] = frozenset()
    """Of a StopReplica, the partitions whose logs are to be deleted."""


@dataclass(slots=True)
class _Role:
    state: StateNode
    assignment: Assignment
    is_new: bool


@dataclass(slots=True)
class _Stop:
    leader_epoch: int
    delete: bool


class ControlBatch:
    """See the module."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._roles: dict[int, dict[PartitionKey, _Role]] = {}
        self._stops: dict[int, dict[PartitionKey, _Stop]] = {}
        self._informed: set[int] = set()
        self._partitions: dict[PartitionKey, None] = {}

    def tell_roles(
        self,
        broker_ids: Iterable[int],
        key: PartitionKey,
        state: StateNode,
        assignment: Assignment,
        *,
        is_new: bool = False,
    ) -> None:
        """Tell brokers their roles in a partition, and all brokers of its state."""
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            roles = self._roles.setdefault(broker_id, {})
            is_already_new = key in roles and roles[key].is_new
            roles[key] = _Role(state, assignment, is_new or is_already_new)
        self.inform_all([key])

    def stop(self, broker_id: int, key: PartitionKey, *, delete: bool) -> None:
        """Tell a broker to take a replica out of service, and to delete its log."""
        stops = self._stops.setdefault(broker_id, {})
        is_deleted = key in stops and stops[key].delete
        stops[key] = _Stop(self._context.epoch_for_stop(key), delete or is_deleted)

    def inform(self, broker_ids: Iterable[int], keys: Iterable[PartitionKey]) -> None:
        """Tell brokers of the live brokers, and of the state of partitions."""
        self._informed.update(broker_ids)
        self._partitions.update(dict.fromkeys(keys))

    def inform_all(self, keys: Iterable[PartitionKey] = ()) -> None:
        """Tell all brokers of the live brokers, and of the state of partitions."""
        self.inform(self._context.brokers, keys)

    def requests(self) -> list[ControlRequest]:
        """Return the requests to the registered brokers."""
        found = self._leader_and_isr()
        found += self._update_metadata()
        found += self._stop_replica()
        return found

    # LeaderAndIsr

    def _leader_and_isr(self) -> list[ControlRequest]:
        context = self._context
        version = context.settings.protocol.request_version(ApiKey.LEADER_AND_ISR)
        told = [broker_id for broker_id in self._roles if broker_id in context.brokers]
        # New leaders first: followers of a leader that does not know its role yet have to try again.
        told.sort(key=lambda broker_id: -self._led(broker_id))
        return [
            ControlRequest(broker_id, self._roles_of(broker_id, self._roles[broker_id], version), version)
            for broker_id in told
        ]

    def _led(self, broker_id: int) -> int:
        return sum(role.state.leader == broker_id for role in self._roles[broker_id].values())

    def _roles_of(self, broker_id: int, roles: dict[PartitionKey, _Role], version: int) -> LeaderAndIsrRequest:
        context = self._context
        has_recovery = context.settings.protocol.has(Feature.LEADER_RECOVERY)
        message = LeaderAndIsrRequest(
            controller_id=context.settings.broker_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            live_leaders=self._live_leaders({role.state.leader for role in roles.values()}),
        )
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for (topic, index), role in roles.items():
            state = role.state
            told = LeaderAndIsrPartitionState(
                topic_name=topic,
                partition_index=index,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
                replicas=list(role.assignment.replicas),
                adding_replicas=list(role.assignment.adding),
                removing_replicas=list(role.assignment.removing),
                is_new=role.is_new,
                leader_recovery_state=int(state.recovery) if has_recovery else 0,
            )
            if version < _GROUPED_LEADERS_FROM:
                message.ungrouped_partition_states.append(told)
                continue
            if topic not in topics:
                topics[topic] = LeaderAndIsrTopicState(
                    topic_name=topic, topic_id=context.topic_ids.get(topic, NO_TOPIC_ID)
                )
            topics[topic].partition_states.append(told)
        message.topic_states = list(topics.values())
        return message

    def _live_leaders(self, leaders: Collection[int]) -> list[LeaderAndIsrLiveLeader]:
        context, found = self._context, []
        for broker_id in leaders:
            broker = context.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoint(context.settings.inter_broker_listener)
            if endpoint is not None:
                found.append(LeaderAndIsrLiveLeader(broker_id=broker_id, host_name=endpoint.host, port=endpoint.port))
        return found

    # UpdateMetadata

    def _update_metadata(self) -> list[ControlRequest]:
        context = self._context
        told = [broker_id for broker_id in self._informed if broker_id in context.brokers]
        if not told:
            return []
        version = context.settings.protocol.request_version(ApiKey.UPDATE_METADATA)
        brokers = [self._live_broker(broker, version) for broker in context.brokers.values()]
        states, topics = self._partition_states(version)
        changes = self._changes()
        # The entries are the same objects in all requests: they are encoded, and not changed.
        return [
            ControlRequest(
                broker_id,
                UpdateMetadataRequest(
                    controller_id=context.settings.broker_id,
                    controller_epoch=context.epoch,
                    broker_epoch=context.brokers[broker_id].epoch,
                    ungrouped_partition_states=states,
                    topic_states=topics,
                    live_brokers=brokers,
                    changes=changes,
                ),
                version,
            )
            for broker_id in told
        ]

    def _changes(self) -> list[UpdateMetadataChange]:
        """Take the changes that brokers have not been told yet, grouped by text.

        They are kept for a later batch if this one does not go to all brokers, because any broker may be the next
        controller.
        """
        context = self._context
        if not self._informed.issuperset(context.brokers):
            return []
        found: dict[tuple[str, str, str], UpdateMetadataChange] = {}
        for each in context.untold:
            text = each.topic, each.what, shortened(each.cause)
            if text not in found:
                context.told += 1
                topic, what, cause = text
                found[text] = UpdateMetadataChange(number=context.told, topic_name=topic, what=what, cause=cause)
            found[text].partitions.append(each.partition)
        context.untold.clear()
        return list(found.values())

    def _partition_states(
        self, version: int
    ) -> tuple[list[UpdateMetadataPartitionState], list[UpdateMetadataTopicState]]:
        context = self._context
        topics: dict[str, UpdateMetadataTopicState] = {}
        ungrouped: list[UpdateMetadataPartitionState] = []
        for key in self._partitions:
            state = context.states.get(key)
            if state is None:
                continue
            topic, index = key
            replicas = context.assignment(key).replicas
            is_deleted = topic in context.deleting
            told = UpdateMetadataPartitionState(
                topic_name=topic,
                partition_index=index,
                controller_epoch=state.controller_epoch,
                leader=LEADER_DURING_DELETE if is_deleted else state.leader,
                leader_epoch=0 if is_deleted else state.leader_epoch,
                isr=list(state.isr),
                zk_version=0 if is_deleted else state.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[each for each in replicas if not context.is_online(each, key)],
            )
            if version < _GROUPED_STATES_FROM:
                ungrouped.append(told)
                continue
            if topic not in topics:
                topics[topic] = UpdateMetadataTopicState(
                    topic_name=topic, topic_id=context.topic_ids.get(topic, NO_TOPIC_ID)
                )
            topics[topic].partition_states.append(told)
        return ungrouped, list(topics.values())

    @staticmethod
    def _live_broker(broker: BrokerRegistration, version: int) -> UpdateMetadataBroker:
        plain = next((each for each in broker.endpoints if each.protocol == "PLAINTEXT"), None)
        return UpdateMetadataBroker(
            id=broker.broker_id,
            v0_host=plain.host if plain is not None and not version else "",
            v0_port=plain.port if plain is not None and not version else 0,
            endpoints=[
                UpdateMetadataEndpoint(
                    port=each.port,
                    host=each.host,
                    listener=each.name,
                    security_protocol=_PROTOCOL_IDS.get(each.protocol, 0),
                )
                for each in broker.endpoints
            ],
            rack=broker.rack,
        )

    # StopReplica

    def _stop_replica(self) -> list[ControlRequest]:
        context = self._context
        version = context.settings.protocol.request_version(ApiKey.STOP_REPLICA)
        found = []
        for broker_id, stops in self._stops.items():
            if broker_id not in context.brokers:
                continue
            if version >= _EPOCHS_IN_STOPS_FROM:
                found.append(self._stops_of(broker_id, stops, version))
                continue
            for delete in (True, False):
                keys = [key for key, stop in stops.items() if stop.delete is delete]
                if keys:
                    found.append(self._old_stops(broker_id, keys, version, delete=delete))
        return found

    def _empty_stop(self, broker_id: int) -> StopReplicaRequest:
        context = self._context
        return StopReplicaRequest(
            controller_id=context.settings.broker_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
        )

    def _stops_of(self, broker_id: int, stops: dict[PartitionKey, _Stop], version: int) -> ControlRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for (topic, index), stop in stops.items():
            state = topics.setdefault(topic, StopReplicaTopicState(topic_name=topic))
            state.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=index, leader_epoch=stop.leader_epoch, delete_partition=stop.delete
                )
            )
        message = self._empty_stop(broker_id)
        message.topic_states = list(topics.values())
        return ControlRequest(broker_id, message, version, frozenset(key for key, stop in stops.items() if stop.delete))

    def _old_stops(self, broker_id: int, keys: Sequence[PartitionKey], version: int, *, delete: bool) -> ControlRequest:
        """Make a request of a version in which all partitions are deleted, or none."""
        message = self._empty_stop(broker_id)
        message.delete_partitions = delete
        if version < _GROUPED_STOPS_FROM:
            message.ungrouped_partitions = [
                StopReplicaPartitionV0(topic_name=topic, partition_index=index) for topic, index in keys
            ]
        else:
            topics: dict[str, StopReplicaTopicV1] = {}
            for topic, index in keys:
                topics.setdefault(topic, StopReplicaTopicV1(name=topic)).partition_indexes.append(index)
            message.topics = list(topics.values())
        return ControlRequest(broker_id, message, version, frozenset(keys) if delete else frozenset())

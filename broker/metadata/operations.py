"""Changes of the registry: a list of typed operations turns one state into the next. Pure.

A controller decides which operations an event requires; a store carries them out and keeps the result. Every operation
names the nodes of the registry that it changes, so that a store that versions each node (ZooKeeper) writes only those,
each on condition that nobody else has changed it since.

If Apache Kafka has a metadata record for the same change (KRaft's `TopicRecord`, `PartitionChangeRecord`, …), the
operation's docstring names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar, cast

from broker.metadata.model import BrokerRegistration, ClusterState, PartitionState, TopicState
from broker.quota.entities import QuotaEntity
from broker.security.authorizer.model import Entries, ResourcePattern
from broker.security.tokens import Token
from kafkalog.protocol.scram import ScramCredential, ScramMechanism

K = TypeVar("K")
V = TypeVar("V")

Node = tuple[str, ...]
"""A node of the registry: its kind, and the names that identify it among nodes of that kind."""


class ConflictError(Exception):
    """An operation cannot be applied to a state, because what it changes is missing or not as expected."""


class ConfigResource(StrEnum):
    """The kinds of resources with configurations in the registry, by their names in ZooKeeper."""

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"


class Draft:
    """A state to which operations are applied. Each of its maps is copied when it is first changed."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._maps: dict[str, Any] = {}
        self.cluster_id = state.cluster_id
        self.controller_id = state.controller_id
        self.controller_epoch = state.controller_epoch
        self._deleting: set[uuid.UUID] | None = None
        self.next_producer_id = state.next_producer_id

    @property
    def brokers(self) -> dict[int, BrokerRegistration]:
        return self._map("brokers", self._state.brokers)

    @property
    def topics(self) -> dict[str, TopicState]:
        return self._map("topics", self._state.topics)

    @property
    def broker_config(self) -> dict[str, Mapping[str, str]]:
        return self._map("broker_config", self._state.broker_config)

    @property
    def group_config(self) -> dict[str, Mapping[str, str]]:
        return self._map("group_config", self._state.group_config)

    @property
    def client_quotas(self) -> dict[QuotaEntity, Mapping[str, float]]:
        return self._map("client_quotas", self._state.client_quotas)

    @property
    def acls(self) -> dict[ResourcePattern, Entries]:
        return self._map("acls", self._state.acls)

    @property
    def tokens(self) -> dict[str, Token]:
        return self._map("tokens", self._state.tokens)

    @property
    def scram_credentials(self) -> dict[str, Mapping[ScramMechanism, ScramCredential]]:
        return self._map("scram_credentials", self._state.scram_credentials)

    @property
    def deleting(self) -> set[uuid.UUID]:
        """The ids of deleted topics; copied when first asked for, and not again for each topic of a request."""
        if self._deleting is None:
            self._deleting = set(self._state.deleting)
        return self._deleting

    def _map(self, name: str, present: Mapping[K, V]) -> dict[K, V]:
        if name not in self._maps:
            self._maps[name] = dict(present)
        return cast("dict[K, V]", self._maps[name])

    def topic(self, name: str) -> TopicState:
        """Return the topic.

        Raises:
            ConflictError: there is no topic of that name.
        """
        found = self.topics.get(name)
        if found is None:
            raise ConflictError(f"there is no topic {name}")
        return found

    def finish(self) -> ClusterState:
        """Make the resulting state."""
        return replace(
            self._state,
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch,
            deleting=self._state.deleting if self._deleting is None else frozenset(self._deleting),
            next_producer_id=self.next_producer_id,
            **self._maps,
        )


class Operation(Protocol):
    """One change."""

    durable: ClassVar[bool]
    """True if it must be on disk before it takes effect. An operation that is not durable lasts as long as the broker
    that it concerns, like an ephemeral node of ZooKeeper."""

    def apply(self, draft: Draft) -> None:
        """Apply the operation to `draft`.

        Raises:
            ConflictError: it cannot be applied.
        """

    def nodes(self) -> Sequence[Node]:
        """Return the nodes of the registry that the operation creates, changes or removes."""


def apply(state: ClusterState, operations: Iterable[Operation]) -> ClusterState:
    """Apply all `operations` in order, or raise an error.

    Raises:
        ConflictError: one of them cannot be applied.
    """
    draft = Draft(state)
    for operation in operations:
        operation.apply(draft)
    return draft.finish()


# -- brokers and the controller ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """Register a live broker (RegisterBrokerRecord)."""

    durable: ClassVar[bool] = False
    broker: BrokerRegistration

    def apply(self, draft: Draft) -> None:
        draft.brokers[self.broker.broker_id] = self.broker

    def nodes(self) -> Sequence[Node]:
        return [("brokers", str(self.broker.broker_id))]


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """Remove the registration of a broker that is no longer alive (UnregisterBrokerRecord)."""

    durable: ClassVar[bool] = False
    broker_id: int
    epoch: int

    def apply(self, draft: Draft) -> None:
        present = draft.brokers.get(self.broker_id)
        if present is None or present.epoch != self.epoch:
            raise ConflictError(f"broker {self.broker_id} is not registered with epoch {self.epoch}")
        del draft.brokers[self.broker_id]

    def nodes(self) -> Sequence[Node]:
        return [("brokers", str(self.broker_id))]


@dataclass(frozen=True, slots=True)
class ElectController:
    """Make a broker the controller, with a new controller epoch."""

    durable: ClassVar[bool] = False
    broker_id: int
    epoch: int

    def apply(self, draft: Draft) -> None:
        if self.epoch <= draft.controller_epoch:
            raise ConflictError(f"controller epoch {self.epoch} is not above {draft.controller_epoch}")
        draft.controller_id, draft.controller_epoch = self.broker_id, self.epoch

    def nodes(self) -> Sequence[Node]:
        return [("controller",), ("controller_epoch",)]


# -- topics and partitions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic (TopicRecord, and a PartitionRecord for each partition)."""

    durable: ClassVar[bool] = True
    topic: TopicState

    def apply(self, draft: Draft) -> None:
        if self.topic.name in draft.topics:
            raise ConflictError(f"there is a topic {self.topic.name} already")
        draft.topics[self.topic.name] = self.topic

    def nodes(self) -> Sequence[Node]:
        name = self.topic.name
        states = [("partitions", name, str(index)) for index in range(len(self.topic.partitions))]
        return [("topics", name), ("config", ConfigResource.TOPIC, name), *states]


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add partitions after the existing ones of a topic (PartitionRecord)."""

    durable: ClassVar[bool] = True
    topic: str
    first: int
    partitions: tuple[PartitionState, ...]

    def apply(self, draft: Draft) -> None:
        topic = draft.topic(self.topic)
        if len(topic.partitions) != self.first:
            raise ConflictError(f"topic {self.topic} has {len(topic.partitions)} partitions, not {self.first}")
        draft.topics[self.topic] = replace(topic, partitions=topic.partitions + self.partitions)

    def nodes(self) -> Sequence[Node]:
        states = [("partitions", self.topic, str(self.first + index)) for index in range(len(self.partitions))]
        return [("topics", self.topic), *states]


@dataclass(frozen=True, slots=True)
class ChangePartitions:
    """Change the leader, ISR or assignment of a topic's partitions (PartitionChangeRecord).

    The `partition_epoch` of each state is one above that of the state that the decision was based on.
    """

    durable: ClassVar[bool] = True
    topic: str
    states: Mapping[int, PartitionState]

    def apply(self, draft: Draft) -> None:
        topic = draft.topic(self.topic)
        partitions = list(topic.partitions)
        for index, state in self.states.items():
            if not 0 <= index < len(partitions):
                raise ConflictError(f"topic {self.topic} has no partition {index}")
            present = partitions[index]
            if state.partition_epoch != present.partition_epoch + 1:
                raise ConflictError(
                    f"{self.topic}-{index} has partition epoch {present.partition_epoch}: it cannot become "
                    f"{state.partition_epoch}"
                )
            if state.leader_epoch < present.leader_epoch:
                raise ConflictError(f"the leader epoch of {self.topic}-{index} cannot go back")
            partitions[index] = state
        draft.topics[self.topic] = replace(topic, partitions=tuple(partitions))

    def nodes(self) -> Sequence[Node]:
        return [("partitions", self.topic, str(index)) for index in self.states]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic, and remember that its logs have to be removed (RemoveTopicRecord)."""

    durable: ClassVar[bool] = True
    name: str
    topic_id: uuid.UUID

    def apply(self, draft: Draft) -> None:
        if draft.topic(self.name).topic_id != self.topic_id:
            raise ConflictError(f"topic {self.name} has another id than {self.topic_id}")
        del draft.topics[self.name]
        draft.deleting.add(self.topic_id)

    def nodes(self) -> Sequence[Node]:
        return [("topics", self.name), ("config", ConfigResource.TOPIC, self.name), ("deleting", str(self.topic_id))]


@dataclass(frozen=True, slots=True)
class ForgetDeleted:
    """Forget deleted topics, whose logs have been removed."""

    durable: ClassVar[bool] = True
    topic_ids: frozenset[uuid.UUID]

    def apply(self, draft: Draft) -> None:
        draft.deleting.difference_update(self.topic_ids)

    def nodes(self) -> Sequence[Node]:
        return [("deleting", str(each)) for each in sorted(self.topic_ids)]


# -- configurations, quotas, access control, credentials, producer ids -----------------------------------------------


@dataclass(frozen=True, slots=True)
class SetConfig:
    """Replace the whole configuration of a resource by `config` (ConfigRecord)."""

    durable: ClassVar[bool] = True
    resource: ConfigResource
    name: str
    config: Mapping[str, str]

    def apply(self, draft: Draft) -> None:
        if self.resource is ConfigResource.TOPIC:
            draft.topics[self.name] = replace(draft.topic(self.name), config=self.config)
        elif self.resource is ConfigResource.BROKER:
            draft.broker_config[self.name] = self.config
        elif self.config:
            # Moved to the end, like a new entry.
            draft.group_config.pop(self.name, None)
            draft.group_config[self.name] = self.config
        else:
            draft.group_config.pop(self.name, None)

    def nodes(self) -> Sequence[Node]:
        return [("config", self.resource, self.name)]


@dataclass(frozen=True, slots=True)
class SetClientQuota:
    """Replace all quotas of an entity by `values`; an empty mapping removes the entity (ClientQuotaRecord)."""

    durable: ClassVar[bool] = True
    entity: QuotaEntity
    values: Mapping[str, float]

    def apply(self, draft: Draft) -> None:
        if self.values:
            # An existing entity keeps its place.
            draft.client_quotas[self.entity] = self.values
        else:
            draft.client_quotas.pop(self.entity, None)

    def nodes(self) -> Sequence[Node]:
        return [("quotas", str(self.entity))]


@dataclass(frozen=True, slots=True)
class SetAcls:
    """Replace all access control entries of a pattern; without entries it is removed (AccessControlEntryRecord)."""

    durable: ClassVar[bool] = True
    pattern: ResourcePattern
    entries: Entries

    def apply(self, draft: Draft) -> None:
        if self.entries:
            draft.acls[self.pattern] = self.entries
        else:
            draft.acls.pop(self.pattern, None)

    def nodes(self) -> Sequence[Node]:
        kind, pattern_type, name = self.pattern
        return [("acls", kind.title, pattern_type.title, name)]


@dataclass(frozen=True, slots=True)
class SetScramCredentials:
    """Replace all SCRAM credentials of a user; an empty mapping removes them (UserScramCredentialRecord)."""

    durable: ClassVar[bool] = True
    user: str
    credentials: Mapping[ScramMechanism, ScramCredential]

    def apply(self, draft: Draft) -> None:
        if self.credentials:
            draft.scram_credentials[self.user] = self.credentials
        else:
            draft.scram_credentials.pop(self.user, None)

    def nodes(self) -> Sequence[Node]:
        return [("scram", self.user)]


@dataclass(frozen=True, slots=True)
class SetToken:
    """Replace a delegation token; None removes it (DelegationTokenRecord, RemoveDelegationTokenRecord)."""

    durable: ClassVar[bool] = True
    token_id: str
    token: Token | None

    def apply(self, draft: Draft) -> None:
        if self.token is not None:
            draft.tokens[self.token_id] = self.token
        else:
            draft.tokens.pop(self.token_id, None)

    def nodes(self) -> Sequence[Node]:
        return [("token", self.token_id)]


@dataclass(frozen=True, slots=True)
class TakeProducerIds:
    """Reserve the producer ids below `next_id` for allocation (ProducerIdsRecord)."""

    durable: ClassVar[bool] = True
    next_id: int

    def apply(self, draft: Draft) -> None:
        if self.next_id < draft.next_producer_id:
            raise ConflictError(f"producer ids below {draft.next_producer_id} are given out already")
        draft.next_producer_id = self.next_id

    def nodes(self) -> Sequence[Node]:
        return [("producer_ids",)]

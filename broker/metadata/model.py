"""The state of a cluster. Immutable values; a change makes a new `ClusterState` (see `operations`).

`json_form` has the form in which a state is stored.
"""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from broker.config.listeners import Endpoint
from broker.quota.entities import QuotaEntity
from broker.security.authorizer.model import Acls
from broker.security.tokens import Token
from kafkalog.protocol.scram import ScramCredential, ScramMechanism

NO_LEADER = -1
NO_CONTROLLER = -1
NO_TOPIC_ID = uuid.UUID(int=0)
"""Stands for an id that is not known: the topic has none, or the controller is older than 2.8 and sends none."""
HYPHEN = 62
"""The value of a hyphen in URL-safe base64."""


class MetadataError(Exception):
    """The stored registry cannot be read; the message names the file."""


class LeaderRecoveryState(IntEnum):
    """The recovery state of a partition's leader: one that is RECOVERING may lack committed records (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1
    """The leader was elected although it was not in sync, and has not started to serve yet."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One live broker."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    """The advertised endpoints, one for each listener."""
    rack: str | None = None
    epoch: int = 0
    """A number that grows with each registration of the same broker."""
    watches_itself: bool = False
    """True if it stops leading when its registration is deleted. Brokers of Apache Kafka do not."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the advertised endpoint of the listener with this name, or None."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: its replicas, its ISR and its leader."""

    replicas: tuple[int, ...]
    """The brokers that hold it, the preferred leader first."""
    isr: tuple[int, ...]
    """The in-sync replicas."""
    leader: int
    """The leader's id, or NO_LEADER."""
    leader_epoch: int = 0
    """The number of elections."""
    partition_epoch: int = 0
    """The number of changes of this value (in ZooKeeper, the version of the partition's node)."""
    controller_epoch: int = 0
    """The epoch of the controller that elected the leader."""
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds; among `replicas`."""
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment will remove; among `replicas`."""
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    offline: tuple[int, ...] = ()
    """Replicas that cannot be used although their brokers are alive, as the controller told; it is not stored."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic. `config` holds the overrides, as text."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionState, ...]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of the registry at one moment."""

    cluster_id: str
    controller_id: int = NO_CONTROLLER
    """The broker that is the controller, or NO_CONTROLLER."""
    controller_epoch: int = 0
    """The number of controller elections."""
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    """The live brokers by id."""
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    broker_config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The dynamic configuration by broker id as text; `""` is the default of all brokers."""
    group_config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    acls: Acls = field(default_factory=dict)
    """The access control entries. A member of a cluster reads them only if it has an authorizer."""
    deleting: frozenset[uuid.UUID] = frozenset()
    """The topics that are being deleted, whose directories may still exist."""
    next_producer_id: int = 0
    """The first producer id that has not been allocated."""
    revision: int = 0
    """The number of stored changes."""
    scram_credentials: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = field(default_factory=dict)
    """The SCRAM credentials by user."""
    tokens: Mapping[str, Token] = field(default_factory=dict)
    """The delegation tokens by their ids. A member of a cluster reads them only if it has their secret."""

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """Return the partition, or None if it does not exist."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


def new_cluster_id(chance: random.Random) -> str:
    """Make a random id in Kafka's form: 16 bytes in URL-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.UUID(int=chance.getrandbits(128), version=4).bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def may_be_one_topic(one: uuid.UUID, other: uuid.UUID) -> bool:
    """Return whether two ids found under one name may be those of the same topic.

    An id that is not known says nothing: it becomes known when the cluster is upgraded to 2.8 or later.
    """
    return one == other or NO_TOPIC_ID in (one, other)


class PartitionCount(NamedTuple):
    """The number of partitions that a topic has."""

    topic_id: uuid.UUID
    partitions: int


def new_topic_id(taken: Set[uuid.UUID], chance: random.Random) -> uuid.UUID:
    """Make a random topic id (KIP-516) that is neither reserved nor among `taken`.

    As in Kafka, its text (URL-safe base64) does not begin with a hyphen, which a tool would take for an option.
    """
    while True:
        candidate = uuid.UUID(int=chance.getrandbits(128), version=4)
        if candidate.int > 1 and candidate.bytes[0] >> 2 != HYPHEN and candidate not in taken:
            return candidate

"""What a cluster registers about itself. Values only; a change makes a new ``ClusterState``.

The text form is JSON, one object:

    {"format": 1, "revision": 7, "cluster_id": "…", "next_producer_id": 0,
     "topics": {name: {"id": uuid, "partitions": [[replicas], …], "leader_epochs": […], "config": {…}}},
     "broker_config": {"<id>" or "": {…}}, "group_config": {group id: {…}},
     "client_quotas": [{"entity": {type: name or null}, "values": {key: number}}, …],
     "deleting": [uuid, …]}

``revision`` counts the changes, so that of several copies the newest is known; a text without it has revision 0.
``deleting`` names topics whose removal is decided and whose directories may still exist: start-up finishes the job.
"""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from broker.quota.entities import QuotaEntity
from kafkalog.protocol.errors import InvalidRequestError

FORMAT = 1


class MetadataError(Exception):
    """The stored registry cannot be read; the message names the file."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: who holds it and who leads."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic. ``config`` holds the overrides, as text."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionState, ...]
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The registry at one moment."""

    cluster_id: str
    topics: dict[str, TopicState] = field(default_factory=dict)
    broker_config: dict[str, dict[str, str]] = field(default_factory=dict)
    deleting: frozenset[uuid.UUID] = frozenset()
    next_producer_id: int = 0
    revision: int = 0
    group_config: dict[str, dict[str, str]] = field(default_factory=dict)
    client_quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)

    def with_topics(self, *topics: TopicState) -> ClusterState:
        merged = dict(self.topics)
        merged.update({topic.name: topic for topic in topics})
        return replace(self, topics=merged)

    def without_topics(self, *names: str) -> ClusterState:
        kept = {name: topic for name, topic in self.topics.items() if name not in names}
        gone = {self.topics[name].topic_id for name in names if name in self.topics}
        return replace(self, topics=kept, deleting=self.deleting | gone)


HYPHEN = 62
"""The value of a hyphen in URL-safe base64."""


def new_cluster_id() -> str:
    """A random id in Kafka's form: 16 bytes in URL-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def new_topic_id(taken: set[uuid.UUID]) -> uuid.UUID:
    """A random topic id (KIP-516): never a reserved one or one in use, and none that a tool would take for an option.

    As in Kafka, its text (URL-safe base64) does not begin with a hyphen.
    """
    while True:
        candidate = uuid.uuid4()
        if candidate.int > 1 and candidate.bytes[0] >> 2 != HYPHEN and candidate not in taken:
            return candidate


def to_json(state: ClusterState) -> str:
    """The text form (see the module)."""
    topics = {
        topic.name: {
            "id": str(topic.topic_id),
            "partitions": [list(partition.replicas) for partition in topic.partitions],
            "leader_epochs": [partition.leader_epoch for partition in topic.partitions],
            "config": topic.config,
        }
        for topic in state.topics.values()
    }
    return json.dumps(
        {
            "format": FORMAT,
            "revision": state.revision,
            "cluster_id": state.cluster_id,
            "next_producer_id": state.next_producer_id,
            "topics": topics,
            "broker_config": state.broker_config,
            "group_config": state.group_config,
            "client_quotas": [
                {"entity": dict(entity.parts), "values": values} for entity, values in state.client_quotas.items()
            ],
            "deleting": sorted(str(item) for item in state.deleting),
        },
        indent=0,
    )


def from_json(text: str, source: str) -> ClusterState:
    """The state of ``text``. One broker holds every replica, so leader and ISR are the replicas themselves.

    Raises:
        MetadataError: the text is not what ``to_json`` writes.
    """
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise MetadataError(f"{source} has format {data['format']}; this release reads format {FORMAT}")
        return ClusterState(
            cluster_id=str(data["cluster_id"]),
            topics={name: _topic(name, entry) for name, entry in data["topics"].items()},
            broker_config={str(name): dict(entry) for name, entry in data["broker_config"].items()},
            group_config={str(name): dict(entry) for name, entry in data.get("group_config", {}).items()},
            client_quotas=_quotas(data.get("client_quotas", [])),
            deleting=frozenset(uuid.UUID(item) for item in data["deleting"]),
            next_producer_id=int(data["next_producer_id"]),
            revision=int(data.get("revision", 0)),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, InvalidRequestError) as error:
        raise MetadataError(f"{source} is damaged ({error!r}); restore it from a copy") from error


def _topic(name: str, entry: dict[str, Any]) -> TopicState:
    partitions = tuple(
        PartitionState(tuple(replicas), tuple(replicas), replicas[0], int(epoch))
        for replicas, epoch in zip(entry["partitions"], entry["leader_epochs"], strict=True)
    )
    return TopicState(name, uuid.UUID(entry["id"]), partitions, dict(entry["config"]))


def _quotas(entries: list[dict[str, Any]]) -> dict[QuotaEntity, dict[str, float]]:
    found: dict[QuotaEntity, dict[str, float]] = {}
    for entry in entries:
        entity = QuotaEntity.of(entry["entity"].items())
        found[entity] = {str(key): float(value) for key, value in entry["values"].items()}
        for key, value in found[entity].items():
            entity.check(key, value)
    return found

"""The stored form of the registry: JSON, one object.

    {"format": 2, "revision": 7, "cluster_id": "…", "next_producer_id": 0,
     "controller": {"id": 0, "epoch": 3},
     "brokers": {id: {"epoch": 1, "rack": "…" or null, "endpoints": [[listener, host, port, protocol], …]}},
     "topics": {name: {"id": uuid, "config": {…}, "partitions": {
         "replicas": [[…], …], "isr": [[…], …], "leader": […], "leader_epoch": […], "partition_epoch": […],
         "controller_epoch": […], "adding": {index: […]}, "removing": {index: […]}, "recovering": [index, …]}}},
     "broker_config": {"<id>" or "": {…}}, "group_config": {group id: {…}},
     "client_quotas": [{"entity": {type: name or null}, "values": {key: number}}, …],
     "acls": [{"resourceType": "Topic", "patternType": "Literal", "name": "…", "acls": [{…}, …]}, …],
     "delegation_tokens": [{…}, …],
     "scram_credentials": {user: {mechanism: "salt=…,stored_key=…,server_key=…,iterations=…"}},
     "deleting": [uuid, …]}

Delegation tokens have the form of those in ZooKeeper (`security.tokens`), and so have the entries of `acls`
(`znodes/acls`).

A topic's partitions are stored in columns, with one entry for each partition in order; `adding`, `removing` and
`recovering` name only the partitions with a reassignment or an unclean election. Each topic is on its own line. Of
several copies the one with the largest `revision` is the newest. `deleting` names topics that are being deleted and
whose directories may still exist; the next start finishes their deletion.

Format 1, from before the introduction of leader elections, has the lists of replicas as `partitions`, and
`leader_epochs` beside them. It can be read, with the first replica as the leader and all replicas in sync, and is
never written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from broker.config.listeners import Endpoint
from broker.metadata.model import (
    NO_CONTROLLER,
    BrokerRegistration,
    ClusterState,
    LeaderRecoveryState,
    MetadataError,
    PartitionState,
    TopicState,
)
from broker.metadata.znodes import acls
from broker.quota.entities import QuotaEntity
from broker.security.authorizer.model import Entries, ResourcePattern
from broker.security.tokens import Token, of_content
from kafkalog.protocol.acls import AclPatternType, AclResourceType
from kafkalog.protocol.errors import InvalidRequestError
from kafkalog.protocol.scram import ScramCredential, ScramMechanism

FORMAT = 2
READABLE = (1, 2)
_COLUMNS = ("replicas", "isr", "leader", "leader_epoch", "partition_epoch", "controller_epoch")


def to_json(state: ClusterState) -> str:
    """Write `state` as text (see the module)."""
    head = {
        "format": FORMAT,
        "revision": state.revision,
        "cluster_id": state.cluster_id,
        "next_producer_id": state.next_producer_id,
        "controller": {"id": state.controller_id, "epoch": state.controller_epoch},
        "brokers": {str(broker.broker_id): _broker_entry(broker) for broker in state.brokers.values()},
        "broker_config": {name: dict(config) for name, config in state.broker_config.items()},
        "group_config": {name: dict(config) for name, config in state.group_config.items()},
        "client_quotas": [
            {"entity": dict(entity.parts), "values": dict(values)} for entity, values in state.client_quotas.items()
        ],
        "acls": [_acl_entry(pattern, entries) for pattern, entries in state.acls.items()],
        "delegation_tokens": [token.content() for token in state.tokens.values()],
        "scram_credentials": {
            user: {mechanism.value: credential.text() for mechanism, credential in credentials.items()}
            for user, credentials in state.scram_credentials.items()
        },
        "deleting": sorted(str(item) for item in state.deleting),
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    topics = [f"{json.dumps(topic.name)}: {json.dumps(_topic_entry(topic))}" for topic in state.topics.values()]
    lines.append('"topics": {' + ",\n".join(["", *topics])[1:] + "}")
    return "{" + ",\n".join(lines) + "}\n"


def _broker_entry(broker: BrokerRegistration) -> dict[str, object]:
    endpoints = [[each.name, each.host, each.port, each.protocol] for each in broker.endpoints]
    return {"epoch": broker.epoch, "rack": broker.rack, "endpoints": endpoints}


def _topic_entry(topic: TopicState) -> dict[str, object]:
    partitions = topic.partitions
    columns: dict[str, object] = {name: [getattr(each, name) for each in partitions] for name in _COLUMNS}
    columns["adding"] = {str(index): each.adding for index, each in enumerate(partitions) if each.adding}
    columns["removing"] = {str(index): each.removing for index, each in enumerate(partitions) if each.removing}
    columns["recovering"] = [index for index, each in enumerate(partitions) if each.recovery]
    return {"id": str(topic.topic_id), "config": dict(topic.config), "partitions": columns}


def _acl_entry(pattern: ResourcePattern, entries: Entries) -> dict[str, object]:
    return {
        "resourceType": pattern.resource_type.title,
        "patternType": pattern.pattern_type.title,
        "name": pattern.name,
        "acls": acls.to_json(entries),
    }


def from_json(text: str, source: str) -> ClusterState:
    """Read a state from `text`; `source` names its origin in errors.

    Raises:
        MetadataError: the text is not what `to_json` writes.
    """
    try:
        data = json.loads(text)
        if data["format"] not in READABLE:
            raise MetadataError(
                f"{source} has format {data['format']}; this release reads formats "
                f"{', '.join(map(str, READABLE))}: start the release that wrote it, or a later one"
            )
        controller = data.get("controller", {"id": NO_CONTROLLER, "epoch": 0})
        return ClusterState(
            cluster_id=_text(data["cluster_id"]),
            controller_id=_number(controller["id"]),
            controller_epoch=_number(controller["epoch"]),
            brokers={int(broker): _broker(int(broker), entry) for broker, entry in data.get("brokers", {}).items()},
            topics={name: _topic(name, entry) for name, entry in data["topics"].items()},
            broker_config=_configs(data["broker_config"]),
            group_config=_configs(data.get("group_config", {})),
            client_quotas=_quotas(data.get("client_quotas", [])),
            acls=_acls(data.get("acls", [])),
            tokens=_tokens(data.get("delegation_tokens", [])),
            scram_credentials=_credentials(data.get("scram_credentials", {})),
            deleting=frozenset(uuid.UUID(item) for item in data["deleting"]),
            next_producer_id=_number(data["next_producer_id"]),
            revision=_number(data.get("revision", 0)),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, InvalidRequestError) as error:
        raise MetadataError(f"{source} is damaged ({error!r}); restore it from a copy") from error


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list of brokers")
    return tuple(map(_number, value))


def _broker(broker_id: int, entry: dict[str, Any]) -> BrokerRegistration:
    endpoints = tuple(
        Endpoint(_text(name), _text(host), _number(port), _text(protocol))
        for name, host, port, protocol in entry["endpoints"]
    )
    rack = None if entry["rack"] is None else _text(entry["rack"])
    return BrokerRegistration(broker_id, endpoints, rack, _number(entry["epoch"]))


def _topic(name: str, entry: dict[str, Any]) -> TopicState:
    partitions = entry["partitions"]
    read = _first_format(entry) if isinstance(partitions, list) else _columns(partitions)
    config = {key: _text(value) for key, value in entry["config"].items()}
    return TopicState(name, uuid.UUID(entry["id"]), read, config)


def _first_format(entry: dict[str, Any]) -> tuple[PartitionState, ...]:
    pairs = zip(entry["partitions"], entry["leader_epochs"], strict=True)
    return tuple(PartitionState(_ids(held), _ids(held), _ids(held)[0], _number(epoch)) for held, epoch in pairs)


def _columns(columns: dict[str, Any]) -> tuple[PartitionState, ...]:
    rows = list(zip(*(columns[name] for name in _COLUMNS), strict=True))
    adding = {int(index): _ids(held) for index, held in columns["adding"].items()}
    removing = {int(index): _ids(held) for index, held in columns["removing"].items()}
    recovering = set(map(_number, columns["recovering"]))
    strange = {*adding, *removing, *recovering} - set(range(len(rows)))
    if strange:
        raise ValueError(f"there are no partitions {sorted(strange)}")
    return tuple(
        PartitionState(
            replicas=_ids(replicas),
            isr=_ids(isr),
            leader=_number(leader),
            leader_epoch=_number(leader_epoch),
            partition_epoch=_number(partition_epoch),
            controller_epoch=_number(controller_epoch),
            adding=adding.get(index, ()),
            removing=removing.get(index, ()),
            recovery=LeaderRecoveryState(index in recovering),
        )
        for index, (replicas, isr, leader, leader_epoch, partition_epoch, controller_epoch) in enumerate(rows)
    )


def _configs(entries: dict[str, dict[str, str]]) -> dict[str, Mapping[str, str]]:
    return {name: {key: _text(value) for key, value in entry.items()} for name, entry in entries.items()}


def _quotas(entries: list[dict[str, Any]]) -> dict[QuotaEntity, Mapping[str, float]]:
    found: dict[QuotaEntity, Mapping[str, float]] = {}
    for entry in entries:
        entity = QuotaEntity.of(entry["entity"].items())
        values = {str(key): float(value) for key, value in entry["values"].items()}
        for key, value in values.items():
            entity.check(key, value)
        found[entity] = values
    return found


def _acls(found: list[dict[str, Any]]) -> dict[ResourcePattern, Entries]:
    read: dict[ResourcePattern, Entries] = {}
    for each in found:
        kind = acls.code_of(AclResourceType, each["resourceType"])
        pattern_type = acls.code_of(AclPatternType, each["patternType"])
        if kind is AclResourceType.ANY or pattern_type not in acls.ROOTS:
            raise ValueError(f"there are no ACLs of {each['resourceType']}, {each['patternType']}")
        read[ResourcePattern(kind, pattern_type, _text(each["name"]))] = acls.of_json(each["acls"])
    return read


def _tokens(entries: list[dict[str, Any]]) -> dict[str, Token]:
    return {token.token_id: token for token in map(of_content, entries)}


def _credentials(entries: dict[str, dict[str, str]]) -> dict[str, Mapping[ScramMechanism, ScramCredential]]:
    return {
        user: {
            ScramMechanism(name): ScramCredential.parse(ScramMechanism(name), _text(text))
            for name, text in entry.items()
        }
        for user, entry in entries.items()
    }

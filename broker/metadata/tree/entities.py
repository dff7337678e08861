"""The nodes below `/config`: which resource or quota entity each belongs to, and how its content is read. Pure.

A node's name here is its path below `/config`, such as `topics/words`, `brokers/<default>` or
`users/alice/clients/app`. The node of a user holds SCRAM credentials beside quotas. What is neither is kept as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeAlias

from broker.metadata.model import ClusterState
from broker.metadata.operations import ConfigResource, Operation, SetClientQuota, SetConfig, SetScramCredentials
from broker.metadata.znodes.configs import DEFAULT_NAME, desanitized, sanitized
from broker.quota.entities import EntityType, QuotaEntity, QuotaKey
from kafkalog.protocol.errors import InvalidRequestError
from kafkalog.protocol.scram import CredentialError, ScramCredential, ScramMechanism

logger = logging.getLogger(__name__)

Config = Mapping[str, str]
"""The content of a node."""
ConfigOperation: TypeAlias = SetConfig | SetClientQuota | SetScramCredentials
"""An operation that changes a node."""

TOPICS, BROKERS, USERS, CLIENTS, IPS = "topics", "brokers", "users", "clients", "ips"
_QUOTA_KEYS = frozenset(map(str, QuotaKey))
_WHOLE = frozenset({QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE, QuotaKey.CONNECTION_CREATION_RATE})
"""The quotas that are whole numbers."""
_ROUNDING = 1e-6


class NoNodeForError(InvalidRequestError):
    """An operation changes something that a cluster over ZooKeeper does not keep."""


def name_of(operation: ConfigOperation) -> str:
    """Return the node that an operation changes.

    Raises:
        NoNodeForError: there is no node for it.
    """
    if isinstance(operation, SetClientQuota):
        return _quota_name(operation.entity)
    if isinstance(operation, SetScramCredentials):
        return f"{USERS}/{sanitized(operation.user)}"
    if operation.resource is ConfigResource.GROUP:
        raise NoNodeForError(
            "A cluster over ZooKeeper has configurations of topics and brokers, none of groups: set the "
            "group.consumer.* keys of the brokers"
        )
    return f"{operation.resource}/{operation.name or DEFAULT_NAME}"


def _quota_name(entity: QuotaEntity) -> str:
    parts = {kind: DEFAULT_NAME if name is None else sanitized(name) for kind, name in entity}
    if EntityType.IP in parts:
        return f"{IPS}/{parts[EntityType.IP]}"
    client = f"{CLIENTS}/{parts[EntityType.CLIENT_ID]}" if EntityType.CLIENT_ID in parts else ""
    if EntityType.USER not in parts:
        return client
    user = f"{USERS}/{parts[EntityType.USER]}"
    return f"{user}/{client}" if client else user


def content_after(operation: ConfigOperation, present: Config) -> dict[str, str]:
    """Return the content of the operation's node, which has the content `present`."""
    if isinstance(operation, SetConfig):
        return dict(operation.config)
    if isinstance(operation, SetScramCredentials):
        replaced = {mechanism.value for mechanism in _credentials("", present)}
        others = {key: value for key, value in present.items() if key not in replaced}
        return others | {mechanism.value: each.text() for mechanism, each in operation.credentials.items()}
    kept = {key: value for key, value in present.items() if key not in _QUOTA_KEYS}
    return kept | {key: _written(key, value) for key, value in operation.values.items()}


def _written(key: str, value: float) -> str:
    return str(int(value + _ROUNDING)) if key in _WHOLE else repr(float(value))


def operations_for(name: str, content: Config) -> list[ConfigOperation]:
    """Return the changes of the state that a node's content stands for; none for nodes that concern nothing here."""
    kind, _, rest = name.partition("/")
    if not rest:
        return []
    if kind == TOPICS:
        return [SetConfig(ConfigResource.TOPIC, rest, content)]
    if kind == BROKERS:
        return [SetConfig(ConfigResource.BROKER, "" if rest == DEFAULT_NAME else rest, content)]
    entity = _entity(kind, rest)
    if entity is None:
        return []
    found: list[ConfigOperation] = [SetClientQuota(entity, _quotas(name, entity, content))]
    if kind == USERS and "/" not in rest and rest != DEFAULT_NAME:
        found.append(SetScramCredentials(desanitized(rest), _credentials(name, content)))
    return found


def _entity(kind: str, rest: str) -> QuotaEntity | None:
    match kind, rest.split("/"):
        case "users", [user]:
            parts = [(EntityType.USER, user)]
        case "users", [user, "clients", client]:
            parts = [(EntityType.USER, user), (EntityType.CLIENT_ID, client)]
        case "clients", [client]:
            parts = [(EntityType.CLIENT_ID, client)]
        case "ips", [address]:
            parts = [(EntityType.IP, address)]
        case _:
            return None
    try:
        return QuotaEntity.of((kind, None if part == DEFAULT_NAME else desanitized(part)) for kind, part in parts)
    except InvalidRequestError:
        return None


def _quotas(name: str, entity: QuotaEntity, content: Config) -> dict[str, float]:
    found: dict[str, float] = {}
    for key in content.keys() & _QUOTA_KEYS:
        try:
            value = float(content[key])
            entity.check(key, value)
        except (ValueError, InvalidRequestError) as error:
            logger.error("/config/%s in ZooKeeper: the quota %s=%s is not in force: %s", name, key, content[key], error)
        else:
            found[key] = value
    return found


def _credentials(name: str, content: Config) -> dict[ScramMechanism, ScramCredential]:
    """Return the credentials in a user's node. A damaged one is named in the log, if the node has a name."""
    found = {}
    for mechanism in ScramMechanism:
        if mechanism.value not in content:
            continue
        try:
            found[mechanism] = ScramCredential.parse(mechanism, content[mechanism.value])
        except CredentialError as error:
            if name:
                logger.error("/config/%s in ZooKeeper: nobody can log in by %s: %s", name, mechanism.value, error)
    return found


def changes(state: ClusterState, operations: list[Operation]) -> list[Operation]:
    """Return those of the operations that can be applied to `state` and change something in it.

    The configuration of a topic that is not known yet is none of them: it becomes a part of the topic when that comes.
    """
    return [each for each in operations if _differs(state, each)]


def _differs(state: ClusterState, operation: Operation) -> bool:
    if isinstance(operation, SetClientQuota):
        return dict(state.client_quotas.get(operation.entity, {})) != dict(operation.values)
    if isinstance(operation, SetScramCredentials):
        return dict(state.scram_credentials.get(operation.user, {})) != dict(operation.credentials)
    if isinstance(operation, SetConfig) and operation.resource is ConfigResource.TOPIC:
        topic = state.topics.get(operation.name)
        return topic is not None and dict(topic.config) != dict(operation.config)
    if isinstance(operation, SetConfig):
        return dict(state.broker_config.get(operation.name, {})) != dict(operation.config)
    return True

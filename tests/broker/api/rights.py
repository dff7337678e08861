"""Parts of the rules of APIs: requests, and the rights that are enough for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kafkalog.protocol.errors import ErrorCode

TOPIC, GROUP, ID = "t", "g", "id"
Op, Kind = AclOperation, AclResourceType
AUTHORIZATION = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NAMES = {Kind.TOPIC: TOPIC, Kind.GROUP: GROUP, Kind.CLUSTER: CLUSTER_NAME, Kind.TRANSACTIONAL_ID: ID}
T29, G30, C31, I53 = sorted(AUTHORIZATION)

Need = tuple[AclOperation, AclResourceType]


class Rule(NamedTuple):
    """A request, and who may make it."""

    message: Any
    version: int
    denied: int
    """The error without any right."""
    ways: tuple[tuple[Need, ...], ...]
    """Each is a set of rights that is enough."""


def topic(operation: AclOperation) -> Need:
    return operation, Kind.TOPIC


def group(operation: AclOperation) -> Need:
    return operation, Kind.GROUP


def cluster(operation: AclOperation) -> Need:
    return operation, Kind.CLUSTER


def transactional(operation: AclOperation) -> Need:
    return operation, Kind.TRANSACTIONAL_ID


def cluster_action(message: Any, version: int) -> Rule:
    return Rule(message, version, C31, ((cluster(Op.CLUSTER_ACTION),),))

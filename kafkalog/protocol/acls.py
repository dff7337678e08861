"""Codes of access control lists (KIP-11, prefixes: KIP-290), and the operations with each type of resource."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.protocol.code import Code

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of the type CLUSTER."""


class AclCode(Code):
    """Base of the codes."""

    @property
    def title(self) -> str:
        """The name as ZooKeeper's nodes and Kafka's tools write it, such as `TransactionalId`."""
        return self.name.title().replace("_", "")


class AclResourceType(AclCode):
    """The type of the resource that a binding is about; ANY only in filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(AclCode):
    """The pattern type of a resource's name. Filters may say ANY, or MATCH: all bindings that apply to the name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(AclCode):
    """The operation that is allowed or denied; ANY only in filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15
    """Newer than Kafka 3.9 (KIP-939)."""


class AclPermission(AclCode):
    """The permission type of a binding, which allows or denies; ANY only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = AclOperation
OPERATIONS: Mapping[AclResourceType, tuple[AclOperation, ...]] = {
    AclResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE),
    AclResourceType.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALTER, _O.DESCRIBE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE),
    AclResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    AclResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations with each type of resource (`AclEntry.supportedOperations`); ALL stands for all of them."""

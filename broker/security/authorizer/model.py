"""Resources, operations and entries of access control lists. The numbers are those of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

WILDCARD = "*"
"""The name of a literal pattern that stands for all resources of a type, and the host that stands for all."""
ANYBODY = "User:*"
"""The principal of an entry that concerns everybody."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of the type CLUSTER."""


class _Code(IntEnum):
    # `Enum` computes hashes in Python, and these are parts of keys that are looked up for each request.
    __hash__ = int.__hash__

    @property
    def title(self) -> str:
        """The name as ZooKeeper's nodes and Kafka's tools write it, such as `TransactionalId`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ResourceType(_Code):
    """The types of resources; ANY is for filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """The ways in which an entry's name stands for names of resources; ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """The operations with resources; ANY is for filters only, ALL for entries."""

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


class AclPermission(_Code):
    """The effects of an entry; ANY is for filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_O = AclOperation
OPERATIONS: Mapping[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations that there are for each type of resource."""


def bits(operations: tuple[AclOperation, ...]) -> int:
    """Return operations as the bit field of `authorized_operations`."""
    return sum(1 << operation for operation in operations)


ALL_OPERATIONS: Mapping[ResourceType, int] = {kind: bits(operations) for kind, operations in OPERATIONS.items()}
"""All operations of each type, as a bit field: what everybody may do without an authorizer."""
NOT_ASKED = -(1 << 31)
"""The value of `authorized_operations` for a client that did not ask for them."""


class ResourcePattern(NamedTuple):
    """The resources that entries are about."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str

    def __str__(self) -> str:
        return f"{self.resource_type.title}:{self.pattern_type.name}:{self.name}"

    def applies_to(self, name: str) -> bool:
        """Return whether a resource of this type with the name is among them."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """Allows or denies a principal an operation, from a host."""

    principal: str
    """Such as `User:alice`; `User:*` is everybody."""
    host: str
    """The address of the client as text, or `*`."""
    operation: AclOperation
    permission: AclPermission


class AclBinding(NamedTuple):
    """An entry, and the resources that it is about."""

    pattern: ResourcePattern
    entry: AclEntry


Entries = frozenset[AclEntry]
Acls = Mapping[ResourcePattern, Entries]
"""All entries of a cluster. No pattern has an empty set of entries."""

UNREADABLE: Entries = frozenset({AclEntry(ANYBODY, WILDCARD, AclOperation.ALL, AclPermission.DENY)})
"""The entries of resources whose own are stored, but cannot be read: only super users may do anything."""


def is_principal(text: str) -> bool:
    """Return whether a text has the form `Type:name`."""
    kind, colon, name = text.partition(":")
    return bool(kind and colon and name)

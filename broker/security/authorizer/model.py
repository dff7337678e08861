"""Resources and entries of access control lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkalog.protocol.acls import OPERATIONS, AclCode, AclOperation, AclPatternType, AclPermission, AclResourceType

WILDCARD = "*"
"""The name of a literal pattern that stands for all resources of a type, and the host that stands for all."""
ANYBODY = "User:*"
"""The principal of an entry that concerns everybody."""
KNOWN = AclOperation.DESCRIBE_TOKENS
"""The last operation that brokers of Kafka 3.9 know."""


def is_known(code: AclCode) -> bool:
    """Return whether a broker of Kafka 3.9 knows a code."""
    return bool(code) and not (isinstance(code, AclOperation) and code > KNOWN)


def bits(operations: tuple[AclOperation, ...]) -> int:
    """Return operations as the bit field of `authorized_operations`."""
    return sum(1 << operation for operation in operations)


ALL_OPERATIONS: Mapping[AclResourceType, int] = {kind: bits(operations) for kind, operations in OPERATIONS.items()}
"""All operations of each type, as a bit field: what everybody may do without an authorizer."""
NOT_ASKED = -(1 << 31)
"""The value of `authorized_operations` for a client that did not ask for them."""


class ResourcePattern(NamedTuple):
    """The resources that entries are about."""

    resource_type: AclResourceType
    pattern_type: AclPatternType
    name: str

    def __str__(self) -> str:
        return f"{self.resource_type.title}:{self.pattern_type.name}:{self.name}"

    def applies_to(self, name: str) -> bool:
        """Return whether a resource of this type with the name is among them."""
        if self.pattern_type is AclPatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """Allows or denies a principal an operation, from a host."""

    principal: str
    """The principal, such as `User:alice`. `User:*` stands for everybody."""
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

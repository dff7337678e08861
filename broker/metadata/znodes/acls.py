"""`/kafka-acl/<Type>/<name>` and `/kafka-acl-extended/prefixed/<Type>/<name>`: access control entries of a pattern.

`/kafka-acl-changes` and `/kafka-acl-extended-changes` have the notices of changed patterns: the former for literal
patterns, as `TOPIC:name`, the latter for the others, as JSON. Names are written as Kafka's `AclAuthorizer` writes them,
and read in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from broker.metadata.znodes.json_node import ZnodeError, integer, read, text, write
from broker.security.authorizer.model import AclEntry, Entries, ResourcePattern, is_known, is_principal
from kafkalog.protocol.acls import AclCode, AclOperation, AclPatternType, AclPermission, AclResourceType

ROOTS = {AclPatternType.LITERAL: "/kafka-acl", AclPatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
CHANGES = {AclPatternType.LITERAL: "/kafka-acl-changes", AclPatternType.PREFIXED: "/kafka-acl-extended-changes"}
PREFIX = "acl_changes_"
VERSION = 1

Code = TypeVar("Code", bound=AclCode)

_REFUSED = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Characters that ZooKeeper accepts in no part of a path."""


def name_fault(name: str) -> str | None:
    """Return why entries about a resource of the name cannot be a node; None if they can."""
    if _REFUSED.search(name) or name in (".", ".."):
        return "ZooKeeper, which keeps ACLs, has no nodes of such a name"
    return None


def type_path(pattern_type: AclPatternType, kind: AclResourceType) -> str:
    """Return the path of the parent of a type's nodes."""
    return f"{ROOTS[pattern_type]}/{kind.title}"


def path(pattern: ResourcePattern) -> str:
    """Return the path of a pattern's node."""
    return f"{type_path(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"


def change_prefix(pattern_type: AclPatternType) -> str:
    """Return the path to which ZooKeeper appends the number of a notice."""
    return f"{CHANGES[pattern_type]}/{PREFIX}"


def code_of(kind: type[Code], title: object) -> Code:
    """Return a code by its name, such as `ClusterAction` or `CLUSTER_ACTION`.

    Raises:
        ValueError: there is none of the name.
    """
    wanted = text(title).replace("_", "").lower()
    for each in kind:
        if each.title.lower() == wanted and is_known(each):
            return each
    raise ValueError(f"{title!r} is not known")


def to_json(entries: Entries) -> list[dict[str, str]]:
    """Return entries as JSON, in an order that does not change."""
    return [
        {
            "principal": entry.principal,
            "permissionType": entry.permission.title,
            "operation": entry.operation.title,
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]


def of_json(found: list[Mapping[str, Any]]) -> Entries:
    """Read entries from JSON.

    Raises:
        ValueError, TypeError, KeyError: it is not what `to_json` writes.
    """
    entries = frozenset(
        AclEntry(
            text(each["principal"]),
            text(each["host"]),
            code_of(AclOperation, each["operation"]),
            code_of(AclPermission, each["permissionType"]),
        )
        for each in found
    )
    for entry in entries:
        if not is_principal(entry.principal):
            raise ValueError(f"{entry.principal!r} is no principal")
        if AclOperation.ANY is entry.operation or AclPermission.ANY is entry.permission:
            raise ValueError("ANY is for filters only")
    return entries


def encode(entries: Entries) -> bytes:
    """Return the data of a pattern's node."""
    return write({"version": VERSION, "acls": to_json(entries)})


def decode(node: str, data: bytes) -> Entries:
    """Return the entries of a pattern; none if the node has no data, as with Kafka.

    Raises:
        ZnodeError: The data cannot be read.
    """
    if not data:
        return frozenset()

    def take(found: dict[str, Any]) -> Entries:
        if integer(found["version"]) != VERSION:
            raise ValueError(f"version {found['version']} is not known")
        return of_json(found["acls"])

    return read(node, data, take)


def encode_change(pattern: ResourcePattern) -> bytes:
    """Return the data of the notice that the entries of a pattern have changed."""
    kind, pattern_type, name = pattern
    if pattern_type is AclPatternType.LITERAL:
        return f"{kind.name}:{name}".encode()
    return write({"version": VERSION, "resourceType": kind.name, "name": name, "patternType": pattern_type.name})


def decode_change(node: str, data: bytes) -> ResourcePattern:
    """Return the pattern whose entries have changed.

    Raises:
        ZnodeError: The data cannot be read.
    """
    if node.startswith(f"{CHANGES[AclPatternType.LITERAL]}/"):
        try:
            title, colon, name = data.decode().partition(":")
            if not colon:
                raise ValueError("it has no colon")
            return ResourcePattern(code_of(AclResourceType, title), AclPatternType.LITERAL, name)
        except ValueError as error:
            raise ZnodeError(f"The node {node} in ZooKeeper cannot be read: {error}: {data[:200]!r}") from None

    def take(found: dict[str, Any]) -> ResourcePattern:
        if integer(found["version"]) > VERSION:
            raise ValueError(f"version {found['version']} is not known")
        pattern_type = code_of(AclPatternType, found["patternType"])
        if pattern_type is not AclPatternType.PREFIXED:
            raise ValueError(f"the pattern type {pattern_type.name} is not known")
        return ResourcePattern(code_of(AclResourceType, found["resourceType"]), pattern_type, text(found["name"]))

    return read(node, data, take)

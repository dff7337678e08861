"""Resources and entries of access control lists, and their text in the form of Kafka's tool."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kafkalog.client.admin.security.acls import AclBinding, AclFilter
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType


class Entry(NamedTuple):
    """An entry of a list: a principal may or may not carry out an operation, from a host."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


class Resource(NamedTuple):
    """A resource, or the pattern of resources."""

    type: AclResourceType
    name: str
    pattern: AclPatternType

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.type.name}, name={self.name}, patternType={self.pattern.name})"

    def filter(self, entry: Entry | None = None) -> AclFilter:
        """Return a filter of this entry of the resource; of all of them without one."""
        if entry is None:
            return AclFilter(self.type, self.name, pattern_type=self.pattern)
        return AclFilter(
            self.type, self.name, entry.principal, entry.operation, entry.permission, entry.host, self.pattern
        )

    def binding(self, entry: Entry) -> AclBinding:
        return AclBinding(
            self.type, self.name, entry.principal, entry.operation, entry.permission, entry.host, self.pattern
        )


def of_binding(binding: AclBinding) -> str:
    """Return a binding in one line."""
    resource = Resource(binding.resource_type, binding.name, binding.pattern_type)
    return f"{Entry(binding.principal, binding.host, binding.operation, binding.permission)} of {resource}"


def lines(entries: Iterable[Entry]) -> str:
    """Return a line for each entry."""
    return "\n".join(f"\t{entry}" for entry in entries)


def shown(bindings: Collection[AclBinding]) -> str:
    """Return the text of bindings, by resource in the order of their names."""
    found: dict[Resource, list[Entry]] = {}
    for each in bindings:
        resource = Resource(each.resource_type, each.name, each.pattern_type)
        entry = Entry(each.principal, each.host, each.operation, each.permission)
        found.setdefault(resource, []).append(entry)
    return "".join(
        f"Current ACLs for resource `{resource}`: \n {lines(sorted(entries))} \n\n"
        for resource, entries in sorted(found.items())
    )

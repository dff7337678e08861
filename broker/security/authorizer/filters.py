"""Filters by which administrators select entries to read or to delete. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.security.authorizer.model import WILDCARD, AclEntry, Acls, Entries, ResourcePattern
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType


class AclFilter(NamedTuple):
    """Selects entries; what is ANY or None selects by nothing. Names of principals and hosts are compared as they are.

    The pattern type ANY selects patterns with exactly the name; MATCH those that apply to the resource of that name.
    """

    resource_type: AclResourceType
    pattern_type: AclPatternType
    name: str | None
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission

    @property
    def only(self) -> ResourcePattern | None:
        """The only pattern that can be selected; None if there may be several."""
        is_one = self.resource_type is not AclResourceType.ANY and self.pattern_type >= AclPatternType.LITERAL
        return ResourcePattern(self.resource_type, self.pattern_type, self.name) if is_one and self.name else None

    def selects_pattern(self, pattern: ResourcePattern) -> bool:
        """Return whether entries of the pattern can be selected."""
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type >= AclPatternType.LITERAL and self.pattern_type is not pattern.pattern_type:
            return False
        if self.name is None:
            return True
        if self.pattern_type is not AclPatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is AclPatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def selects(self, entry: AclEntry) -> bool:
        """Return whether an entry of a selected pattern is selected."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )

    def candidates(self, acls: Acls) -> Iterable[tuple[ResourcePattern, Entries]]:
        """Return the patterns that have to be looked at, with their entries."""
        only = self.only
        return acls.items() if only is None else [(only, acls.get(only, frozenset()))]

    def picked(self, pattern: ResourcePattern, entries: Entries) -> Entries:
        """Return those of a pattern's entries that are selected."""
        if not self.selects_pattern(pattern):
            return frozenset()
        return frozenset(entry for entry in entries if self.selects(entry))

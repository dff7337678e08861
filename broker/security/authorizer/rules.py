"""The entries of a cluster, and what they decide. Pure.

Apache Kafka's `StandardAuthorizer` and `AclAuthorizer` decide the same:

1. Super users may do everything.
2. The entries that count are those of the literal pattern with the resource's name, of the literal pattern `*`, and of
   the prefixed patterns with which the name begins.
3. An entry matches if its principal is the client's or `User:*`, its host is the client's address or `*`, and its
   operation is the one that is asked for or ALL. If it allows READ, WRITE, DELETE or ALTER, it allows DESCRIBE as well;
   and ALTER_CONFIGS brings DESCRIBE_CONFIGS. What is denied implies nothing.
4. One matching entry that denies decides. Otherwise one that allows does. If there is neither, the operation is denied.
   Only where no entries count at all, whoever they concern, `allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from broker.security.authorizer.model import ANYBODY, WILDCARD, AclEntry, Acls, Entries, ResourcePattern
from kafkalog.protocol.acls import OPERATIONS, AclOperation, AclPatternType, AclPermission, AclResourceType

Principal = tuple[str, str]
"""The type of a principal, and its name."""

_Kind = tuple[AclResourceType, str, AclOperation, AclPermission]
"""The type of an entry's resource, its principal, operation and permission."""

_ALLOWED_BY: dict[AclOperation, frozenset[AclOperation]] = {
    operation: frozenset({operation, AclOperation.ALL}) for operation in AclOperation
}
_ALLOWED_BY[AclOperation.DESCRIBE] |= {
    AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER
}  # fmt: skip
_ALLOWED_BY[AclOperation.DESCRIBE_CONFIGS] |= {AclOperation.ALTER_CONFIGS}


class Decision(NamedTuple):
    """The outcome for one operation, and the rule that led to it."""

    is_allowed: bool
    rule: str
    """The rule, by the name that Kafka's audit log gives it."""
    pattern: ResourcePattern | None = None
    """The pattern of the entry that decided, if one did."""
    entry: AclEntry | None = None

    @property
    def reason(self) -> str:
        """The rule with its entry, as text for the log."""
        if self.pattern is None or self.entry is None:
            return self.rule
        entry = self.entry
        return (
            f"{self.rule}(acl=(resource={self.pattern}, principal={entry.principal}, host={entry.host}, "
            f"operation={entry.operation.name}, permissionType={entry.permission.name}))"
        )


SUPER_USER = Decision(True, "SuperUser")
DEFAULT_ALLOW = Decision(True, "DefaultAllow")
DEFAULT_DENY = Decision(False, "DefaultDeny")
MATCHING = "MatchingAcl"


class AclRules:
    """The entries of a cluster, kept so that a decision looks at few of them.

    Args:
        super_users: who may do everything.
        allow_if_none: the value of `allow.everyone.if.no.acl.found`.
        acls: the entries to begin with.
    """

    def __init__(self, super_users: frozenset[Principal], *, allow_if_none: bool, acls: Acls | None = None) -> None:
        self.super_users = super_users
        self.allow_if_none = allow_if_none
        self._literal: dict[AclResourceType, dict[str, Entries]] = {kind: {} for kind in AclResourceType}
        self._prefixed: dict[AclResourceType, dict[str, Entries]] = {kind: {} for kind in AclResourceType}
        self._lengths: dict[AclResourceType, Counter[int]] = {kind: Counter() for kind in AclResourceType}
        """The lengths of the prefixes: only so many beginnings of a name have to be looked up."""
        self._having: dict[_Kind, set[ResourcePattern]] = {}
        """The patterns that have an entry of a kind."""
        for pattern, entries in (acls or {}).items():
            self.replace(pattern, entries)

    def entries_of(self, pattern: ResourcePattern) -> Entries:
        """Return the entries of a pattern; none if there is no such pattern."""
        return self._of(pattern).get(pattern.name, frozenset())

    def replace(self, pattern: ResourcePattern, entries: Entries) -> None:
        """Replace all entries of a pattern."""
        kind, by_name = pattern.resource_type, self._of(pattern)
        before = by_name.pop(pattern.name, frozenset())
        if before:
            for each in {_kind_of(kind, entry) for entry in before}:
                self._having[each].discard(pattern)
                if not self._having[each]:
                    del self._having[each]
            if pattern.pattern_type is AclPatternType.PREFIXED:
                self._lengths[kind][len(pattern.name)] -= 1
                if not self._lengths[kind][len(pattern.name)]:
                    del self._lengths[kind][len(pattern.name)]
        if entries:
            by_name[pattern.name] = entries
            for entry in entries:
                self._having.setdefault(_kind_of(kind, entry), set()).add(pattern)
            if pattern.pattern_type is AclPatternType.PREFIXED:
                self._lengths[kind][len(pattern.name)] += 1

    def _of(self, pattern: ResourcePattern) -> dict[str, Entries]:
        is_prefixed = pattern.pattern_type is AclPatternType.PREFIXED
        return (self._prefixed if is_prefixed else self._literal)[pattern.resource_type]

    def applying(self, kind: AclResourceType, name: str) -> Iterator[tuple[ResourcePattern, Entries]]:
        """Yield the patterns that apply to a resource, with their entries."""
        literal = self._literal[kind]
        for each in dict.fromkeys((name, WILDCARD)):
            if each in literal:
                yield ResourcePattern(kind, AclPatternType.LITERAL, each), literal[each]
        prefixed = self._prefixed[kind]
        for length in self._lengths[kind]:
            prefix = name[:length]
            # A name that is shorter than the prefix is not found: none of the keys of its length is meant.
            if len(prefix) == length and prefix in prefixed:
                yield ResourcePattern(kind, AclPatternType.PREFIXED, prefix), prefixed[prefix]

    def decide(
        self, principal: Principal, host: str, operation: AclOperation, kind: AclResourceType, name: str
    ) -> Decision:
        """Decide whether a principal may do an operation with the resource of that name, from an address."""
        if principal in self.super_users:
            return SUPER_USER
        principals, hosts = (":".join(principal), ANYBODY), (host, WILDCARD)
        allowing = _ALLOWED_BY[operation]
        found: Decision | None = None
        is_empty = True
        for pattern, entries in self.applying(kind, name):
            is_empty = False
            for entry in entries:
                if entry.principal not in principals or entry.host not in hosts:
                    continue
                if entry.permission is AclPermission.DENY:
                    if entry.operation in (operation, AclOperation.ALL):
                        return Decision(False, MATCHING, pattern, entry)
                elif found is None and entry.operation in allowing:
                    found = Decision(True, MATCHING, pattern, entry)
        if found is not None:
            return found
        return DEFAULT_ALLOW if is_empty and self.allow_if_none else DEFAULT_DENY

    def decide_for_any(
        self, principal: Principal, host: str, operation: AclOperation, kind: AclResourceType
    ) -> Decision:
        """Decide whether there may be a resource of a type with which the principal may do an operation.

        (Kafka's `authorizeByResourceType`.) Operations that are implied do not count.
        """
        if principal in self.super_users:
            return SUPER_USER
        denied = dict(self._matching(principal, host, operation, kind, AclPermission.DENY))
        everything = ResourcePattern(kind, AclPatternType.LITERAL, WILDCARD)
        if everything in denied:
            return Decision(False, MATCHING, everything, denied[everything])
        if self.allow_if_none:
            return DEFAULT_ALLOW
        for pattern, entry in self._matching(principal, host, operation, kind, AclPermission.ALLOW):
            if pattern == everything or not _is_denied(pattern, denied):
                return Decision(True, MATCHING, pattern, entry)
        return DEFAULT_DENY

    def may_from_somewhere(self, principal: Principal, operation: AclOperation, kind: AclResourceType) -> bool:
        """Return whether a principal may perhaps do an operation with a resource of a type, from some address."""
        allowed = (
            (kind, named, each, AclPermission.ALLOW)
            for named in (":".join(principal), ANYBODY)
            for each in (operation, AclOperation.ALL)
        )
        return principal in self.super_users or self.allow_if_none or any(each in self._having for each in allowed)

    def _matching(
        self, principal: Principal, host: str, operation: AclOperation, kind: AclResourceType, permission: AclPermission
    ) -> Iterator[tuple[ResourcePattern, AclEntry]]:
        """Yield the entries of a type that allow, or deny, an operation by itself or as a part of ALL."""
        for named in (":".join(principal), ANYBODY):
            for each in (operation, AclOperation.ALL):
                for pattern in self._having.get((kind, named, each, permission), ()):
                    entries = self.entries_of(pattern)
                    for source in (host, WILDCARD):
                        entry = AclEntry(named, source, each, permission)
                        if entry in entries:
                            yield pattern, entry

    def authorized(self, principal: Principal, host: str, kind: AclResourceType, name: str) -> int:
        """Return the operations that a principal may do with a resource, as a bit field."""
        return sum(
            1 << operation
            for operation in OPERATIONS[kind]
            if self.decide(principal, host, operation, kind, name).is_allowed
        )


def _kind_of(kind: AclResourceType, entry: AclEntry) -> _Kind:
    return kind, entry.principal, entry.operation, entry.permission


def _is_denied(pattern: ResourcePattern, denied: dict[ResourcePattern, AclEntry]) -> bool:
    """Return whether all resources of a pattern are denied by others: by the same one, or by a prefix."""
    if pattern.pattern_type is AclPatternType.LITERAL and pattern in denied:
        return True
    return any(each.pattern_type is AclPatternType.PREFIXED and pattern.name.startswith(each.name) for each in denied)

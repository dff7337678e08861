"""A naive reading of the rules by which access control entries decide, and entries to try it with."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from broker.security.authorizer.model import AclEntry, Acls, Entries, ResourcePattern
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

Op = AclOperation
IMPLIED: Mapping[AclOperation, tuple[AclOperation, ...]] = {
    Op.DESCRIBE: (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER),
    Op.DESCRIBE_CONFIGS: (Op.ALTER_CONFIGS,),
}

PRINCIPALS = [("User", "ann"), ("User", "bob"), ("User", "a:b"), ("Other", "ann")]
HOSTS = ["10.0.0.1", "::1"]
NAMES = ["w", "wo", "words", "words-2", "other", "*"]
KINDS = [AclResourceType.TOPIC, AclResourceType.GROUP]
OPERATIONS = [Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS, Op.CREATE]

patterns = st.builds(
    ResourcePattern,
    st.sampled_from(KINDS),
    st.sampled_from([AclPatternType.LITERAL, AclPatternType.PREFIXED]),
    st.sampled_from(NAMES),
)
entries = st.builds(
    AclEntry,
    st.sampled_from(["User:*", *(":".join(each) for each in PRINCIPALS)]),
    st.sampled_from(["*", *HOSTS]),
    st.sampled_from([Op.ALL, *OPERATIONS]),
    st.sampled_from([AclPermission.DENY, AclPermission.ALLOW]),
)
some_entries: st.SearchStrategy[Entries] = st.frozensets(entries, max_size=4)
acls: st.SearchStrategy[Acls] = st.dictionaries(patterns, st.frozensets(entries, min_size=1, max_size=4), max_size=5)


def _matches(entry: AclEntry, principal: tuple[str, str], host: str) -> bool:
    return entry.principal in ("User:*", f"{principal[0]}:{principal[1]}") and entry.host in ("*", host)


def is_allowed(
    known: Acls,
    supers: frozenset[tuple[str, str]],
    allow_if_none: bool,
    principal: tuple[str, str],
    host: str,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
) -> bool:
    """Return what the rules say, read one after the other over all entries."""
    if principal in supers:
        return True
    concerned = [
        entry
        for pattern, found in known.items()
        for entry in found
        if pattern.resource_type is kind
        and (
            (pattern.pattern_type is AclPatternType.LITERAL and pattern.name in (name, "*"))
            or (pattern.pattern_type is AclPatternType.PREFIXED and name.startswith(pattern.name))
        )
    ]
    if not concerned:
        return allow_if_none
    matching = [entry for entry in concerned if _matches(entry, principal, host)]
    if any(e.permission is AclPermission.DENY and e.operation in (operation, Op.ALL) for e in matching):
        return False
    wanted = (operation, Op.ALL, *IMPLIED.get(operation, ()))
    return any(e.permission is AclPermission.ALLOW and e.operation in wanted for e in matching)


def is_allowed_for_any(
    known: Acls,
    supers: frozenset[tuple[str, str]],
    allow_if_none: bool,
    principal: tuple[str, str],
    host: str,
    operation: AclOperation,
    kind: AclResourceType,
) -> bool:
    """Return whether a resource may exist with which the operation is allowed; implications do not count."""
    if principal in supers:
        return True
    hits = [
        (pattern, entry)
        for pattern, found in known.items()
        for entry in found
        if pattern.resource_type is kind and _matches(entry, principal, host) and entry.operation in (operation, Op.ALL)
    ]
    denied = {pattern for pattern, entry in hits if entry.permission is AclPermission.DENY}
    allowed = {pattern for pattern, entry in hits if entry.permission is AclPermission.ALLOW}
    everything = ResourcePattern(kind, AclPatternType.LITERAL, "*")
    if everything in denied:
        return False
    if allow_if_none or everything in allowed:
        return True
    prefixes = [each.name for each in denied if each.pattern_type is AclPatternType.PREFIXED]
    return any(
        not any(each.name.startswith(prefix) for prefix in prefixes)
        and not (each.pattern_type is AclPatternType.LITERAL and each in denied)
        for each in allowed
    )

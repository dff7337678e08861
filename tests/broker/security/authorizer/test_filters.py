"""Test which entries a filter selects."""

from __future__ import annotations

import pytest

from broker.security.authorizer.filters import AclFilter
from broker.security.authorizer.model import AclEntry, ResourcePattern
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

Op, Kind, Pattern = AclOperation, AclResourceType, AclPatternType
READS = AclEntry("User:ann", "*", Op.READ, AclPermission.ALLOW)
EVERYBODY = AclEntry("User:*", "10.0.0.1", Op.WRITE, AclPermission.DENY)
ACLS = {
    ResourcePattern(Kind.TOPIC, Pattern.LITERAL, "words"): frozenset({READS}),
    ResourcePattern(Kind.TOPIC, Pattern.LITERAL, "*"): frozenset({EVERYBODY}),
    ResourcePattern(Kind.TOPIC, Pattern.PREFIXED, "wo"): frozenset({READS, EVERYBODY}),
    ResourcePattern(Kind.TOPIC, Pattern.PREFIXED, "words"): frozenset({READS}),
    ResourcePattern(Kind.GROUP, Pattern.LITERAL, "words"): frozenset({READS}),
}


def selected(
    kind: AclResourceType = Kind.ANY,
    pattern: AclPatternType = Pattern.ANY,
    name: str | None = None,
    principal: str | None = None,
    host: str | None = None,
    operation: AclOperation = Op.ANY,
    permission: AclPermission = AclPermission.ANY,
) -> set[str]:
    wanted = AclFilter(kind, pattern, name, principal, host, operation, permission)
    picked = [(pattern, wanted.picked(pattern, entries)) for pattern, entries in wanted.candidates(ACLS)]
    return {f"{pattern} {len(entries)}" for pattern, entries in picked if entries}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            selected(),
            {
                "Topic:LITERAL:words 1",
                "Topic:LITERAL:* 1",
                "Topic:PREFIXED:wo 2",
                "Topic:PREFIXED:words 1",
                "Group:LITERAL:words 1",
            },
        ),
        (selected(Kind.TOPIC, Pattern.LITERAL, "words"), {"Topic:LITERAL:words 1"}),
        (selected(Kind.TOPIC, Pattern.PREFIXED, "words"), {"Topic:PREFIXED:words 1"}),
        (selected(Kind.TOPIC, Pattern.LITERAL), {"Topic:LITERAL:words 1", "Topic:LITERAL:* 1"}),
        (selected(Kind.TOPIC, Pattern.ANY, "words"), {"Topic:LITERAL:words 1", "Topic:PREFIXED:words 1"}),
        (
            selected(Kind.TOPIC, Pattern.MATCH, "words"),
            {"Topic:LITERAL:words 1", "Topic:LITERAL:* 1", "Topic:PREFIXED:wo 2", "Topic:PREFIXED:words 1"},
        ),
        (selected(Kind.TOPIC, Pattern.MATCH, "wo"), {"Topic:LITERAL:* 1", "Topic:PREFIXED:wo 2"}),
        (selected(Kind.TOPIC, Pattern.LITERAL, "other"), set()),
        (selected(Kind.TOPIC, Pattern.LITERAL, ""), set()),
        (selected(principal="User:*"), {"Topic:LITERAL:* 1", "Topic:PREFIXED:wo 1"}),
        (selected(host="*", kind=Kind.GROUP), {"Group:LITERAL:words 1"}),
        (selected(operation=Op.ALL), set()),
        (selected(operation=Op.WRITE, permission=AclPermission.ALLOW), set()),
        (selected(permission=AclPermission.DENY), {"Topic:LITERAL:* 1", "Topic:PREFIXED:wo 1"}),
    ],
)
def test_filters(found: set[str], expected: set[str]) -> None:
    assert found == expected

"""Test that entries decide as the rules say, however they came to be known."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.authorizer.model import ALL_OPERATIONS, AclEntry, Acls, Entries, ResourcePattern
from broker.security.authorizer.rules import AclRules
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.broker.security.authorizer import naive

ANN = ("User", "ann")
HOST = "10.0.0.1"
Op, Kind = AclOperation, AclResourceType
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def literal(name: str, kind: AclResourceType = Kind.TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, AclPatternType.LITERAL, name)


def prefixed(name: str, kind: AclResourceType = Kind.TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, AclPatternType.PREFIXED, name)


def entry(
    operation: AclOperation, permission: AclPermission = ALLOW, principal: str = "User:ann", host: str = "*"
) -> AclEntry:
    return AclEntry(principal, host, operation, permission)


def rules(acls: dict[ResourcePattern, list[AclEntry]], *, allow_if_none: bool = False, supers: str = "") -> AclRules:
    users = frozenset({("User", supers)}) if supers else frozenset()
    found = {pattern: frozenset(entries) for pattern, entries in acls.items()}
    return AclRules(users, allow_if_none=allow_if_none, acls=found)


def allows(decider: AclRules, operation: AclOperation, name: str = "words", host: str = HOST) -> bool:
    return decider.decide(ANN, host, operation, Kind.TOPIC, name).is_allowed


def test_the_numbers_of_all_operations_are_kafkas() -> None:
    assert ALL_OPERATIONS[Kind.TOPIC] == 3576
    assert ALL_OPERATIONS[Kind.GROUP] == 328
    assert ALL_OPERATIONS[Kind.CLUSTER] == 8096


def test_what_is_allowed_implies_describe_and_what_is_denied_implies_nothing() -> None:
    for operation in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER):
        assert allows(rules({literal("words"): [entry(operation)]}), Op.DESCRIBE)
        denied = rules({literal("words"): [entry(operation, DENY), entry(Op.DESCRIBE)]})
        assert allows(denied, Op.DESCRIBE)
        assert not allows(denied, operation)
    assert allows(rules({literal("words"): [entry(Op.ALTER_CONFIGS)]}), Op.DESCRIBE_CONFIGS)
    assert not allows(rules({literal("words"): [entry(Op.CREATE)]}), Op.DESCRIBE)
    decider = rules({literal("words"): [entry(Op.READ), entry(Op.DESCRIBE, DENY)]})
    assert allows(decider, Op.READ)
    assert not allows(decider, Op.DESCRIBE)


def test_one_entry_that_denies_decides_however_general_it_is() -> None:
    for denying in (literal("*"), prefixed("w"), literal("words")):
        for allowing in (literal("*"), prefixed("w"), literal("words")):
            decider = rules({allowing: [entry(Op.READ)]})
            before = decider.entries_of(denying)
            decider.replace(denying, before | {entry(Op.ALL, DENY, "User:*")})
            assert not allows(decider, Op.READ)


def test_a_prefix_is_the_beginning_of_a_name_and_an_asterisk_in_it_only_an_asterisk() -> None:
    decider = rules({prefixed("wor"): [entry(Op.READ)], prefixed("*"): [entry(Op.WRITE)]})
    assert allows(decider, Op.READ)
    assert allows(decider, Op.READ, "wor")
    assert not allows(decider, Op.READ, "wo")
    assert not allows(decider, Op.WRITE)
    assert allows(decider, Op.WRITE, "*words")


def test_hosts_are_addresses() -> None:
    decider = rules({literal("words"): [entry(Op.READ, host=HOST)]})
    assert allows(decider, Op.READ)
    assert not allows(decider, Op.READ, host="10.0.0.2")


def test_without_entries_the_flag_decides_and_any_entry_ends_that() -> None:
    assert allows(rules({}, allow_if_none=True), Op.READ)
    assert not allows(rules({}), Op.READ)
    for pattern in (literal("words"), literal("*"), prefixed("w")):
        assert not allows(rules({pattern: [entry(Op.WRITE, ALLOW, "User:bob")]}, allow_if_none=True), Op.READ)
    assert allows(rules({literal("other"): [entry(Op.WRITE)]}, allow_if_none=True), Op.READ)


def test_super_users_may_do_what_is_denied() -> None:
    acls = {literal("*"): [entry(Op.ALL, DENY, "User:*")]}
    assert allows(rules(acls, supers="ann"), Op.READ)
    assert not allows(rules(acls, supers="bob"), Op.READ)


def test_a_decision_names_its_rule_and_entry() -> None:
    decider = rules({literal("words"): [entry(Op.READ)]})
    told = decider.decide(ANN, HOST, Op.READ, Kind.TOPIC, "words").reason
    assert told == (
        "MatchingAcl(acl=(resource=Topic:LITERAL:words, principal=User:ann, host=*, operation=READ, "
        "permissionType=ALLOW))"
    )
    assert decider.decide(ANN, HOST, Op.WRITE, Kind.TOPIC, "words").reason == "DefaultDeny"


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ({literal("a"): [entry(Op.WRITE)]}, True),
        ({literal("a"): [entry(Op.ALL)]}, True),
        ({literal("a"): [entry(Op.READ)]}, False),
        ({literal("a"): [entry(Op.WRITE), entry(Op.WRITE, DENY)]}, False),
        ({prefixed("ab"): [entry(Op.WRITE)], prefixed("a"): [entry(Op.WRITE, DENY)]}, False),
        ({prefixed("a"): [entry(Op.WRITE)], prefixed("ab"): [entry(Op.WRITE, DENY)]}, True),
        ({literal("*"): [entry(Op.WRITE)], prefixed("a"): [entry(Op.WRITE, DENY)]}, True),
        ({literal("a"): [entry(Op.WRITE)], literal("*"): [entry(Op.WRITE, DENY, "User:*")]}, False),
        ({literal("a"): [entry(Op.WRITE, host="1.1.1.1")]}, False),
    ],
)
def test_who_may_write_anywhere(acls: dict[ResourcePattern, list[AclEntry]], is_allowed: bool) -> None:
    assert rules(acls).decide_for_any(ANN, HOST, Op.WRITE, Kind.TOPIC).is_allowed is is_allowed


@given(
    naive.acls,
    st.lists(st.tuples(naive.patterns, naive.some_entries), max_size=6),
    st.booleans(),
    st.frozensets(st.sampled_from(naive.PRINCIPALS), max_size=1),
)
def test_rules_that_follow_changes_decide_as_the_rules_are_read(
    acls: Acls,
    changes: list[tuple[ResourcePattern, Entries]],
    allow_if_none: bool,
    supers: frozenset[tuple[str, str]],
) -> None:
    followed = AclRules(supers, allow_if_none=allow_if_none, acls=acls)
    state = dict(acls)
    for pattern, entries in changes:
        followed.replace(pattern, entries)
        state.pop(pattern, None)
        if entries:
            state[pattern] = entries
    anew = AclRules(supers, allow_if_none=allow_if_none, acls=state)
    for principal, host, kind in itertools.product(naive.PRINCIPALS, naive.HOSTS, naive.KINDS):
        for operation in naive.OPERATIONS:
            said = naive.is_allowed_for_any(state, supers, allow_if_none, principal, host, operation, kind)
            assert followed.decide_for_any(principal, host, operation, kind).is_allowed is said
            assert anew.decide_for_any(principal, host, operation, kind).is_allowed is said
            for name in naive.NAMES:
                said = naive.is_allowed(state, supers, allow_if_none, principal, host, operation, kind, name)
                assert followed.decide(principal, host, operation, kind, name).is_allowed is said
                assert anew.decide(principal, host, operation, kind, name).is_allowed is said

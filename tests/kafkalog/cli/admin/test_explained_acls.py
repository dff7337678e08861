"""Test `kafkalog acls explain`, and the other actions, with a broker of ours that has an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.authorizer.model import Acls
from broker.security.authorizer.rules import AclRules
from kafkalog.cli.admin.security.acls.explaining import Question, explain
from kafkalog.client.admin.security.acls import AclBinding
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.broker.security.authorizer import naive
from tests.support.command import Ended, call
from tests.support.kafkalog_broker import KafkalogBroker

BOB = ("--principal", "User:bob", "--operation", "Read", "--topic", "team-a")


@given(
    naive.acls,
    st.sampled_from(naive.PRINCIPALS),
    st.sampled_from(naive.HOSTS),
    st.sampled_from(naive.OPERATIONS),
    st.sampled_from(naive.KINDS),
    st.sampled_from(naive.NAMES),
)
def test_it_is_explained_as_brokers_decide(
    acls: Acls, principal: tuple[str, str], host: str, operation: AclOperation, kind: AclResourceType, name: str
) -> None:
    decided = AclRules(frozenset(), allow_if_none=False, acls=acls).decide(principal, host, operation, kind, name)
    bindings = [
        AclBinding(
            AclResourceType(pattern.resource_type),
            pattern.name,
            entry.principal,
            AclOperation(entry.operation),
            AclPermission(entry.permission),
            entry.host,
            AclPatternType(pattern.pattern_type),
        )
        for pattern, entries in acls.items()
        for entry in entries
    ]
    question = Question(":".join(principal), AclOperation(operation), AclResourceType(kind), name, host)
    found = explain(question, bindings)
    assert found.is_allowed is decided.is_allowed
    assert (found.deciding is None) is (decided.entry is None)
    if found.deciding is not None:
        assert (found.deciding.permission is AclPermission.ALLOW) is found.is_allowed


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
    with KafkalogBroker(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


def acls(broker: KafkalogBroker, action: str, *words: str, check: int = 0) -> Ended:
    return call("acls", action, "--bootstrap-server", broker.bootstrap, *words, check=check)


@pytest.fixture
def empty(broker: KafkalogBroker) -> KafkalogBroker:
    """Return the broker without ACLs of topics and groups."""
    for option in ("--topic", "--group"):
        for name in ("team-a", "team-", "visits", "nightly"):
            for kind in ("literal", "prefixed"):
                acls(broker, "remove", option, name, "--resource-pattern-type", kind, "--force")
    return broker


def test_what_was_added_is_listed_and_removed(empty: KafkalogBroker) -> None:
    acls(empty, "add", "--allow-principal", "User:ann", "--producer", "--topic", "visits")
    acls(empty, "add", "--allow-principal", "User:bob", "--consumer", "--topic", "visits", "--group", "nightly")
    prefixed = ("--topic", "team-", "--resource-pattern-type", "prefixed")
    acls(empty, "add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.1", *prefixed)
    rows = [json.loads(line) for line in acls(empty, "list", "--json").out]
    assert sorted(f"{row['principal']} {row['operation']} {row['pattern_type']} {row['name']}" for row in rows) == [
        "User:ann CREATE LITERAL visits",
        "User:ann DESCRIBE LITERAL visits",
        "User:ann WRITE LITERAL visits",
        "User:bob DESCRIBE LITERAL visits",
        "User:bob READ LITERAL nightly",
        "User:bob READ LITERAL visits",
        "User:eve ALL PREFIXED team-",
    ]
    matching = acls(empty, "list", "--json", "--topic", "team-b", "--resource-pattern-type", "match").out
    assert [json.loads(line)["principal"] for line in matching] == ["User:eve"]
    acls(empty, "remove", "--topic", "visits", "--allow-principal", "User:ann", "--producer", "--force")
    acls(empty, "remove", *prefixed, "--force")
    assert {json.loads(line)["principal"] for line in acls(empty, "list", "--json").out} == {"User:bob"}


def test_the_deciding_acl_is_named(empty: KafkalogBroker) -> None:
    team = ("--topic", "team-", "--resource-pattern-type", "prefixed")
    acls(empty, "add", "--allow-principal", "User:bob", "--operation", "Read", *team)
    resource = "ResourcePattern(resourceType=TOPIC, name=team-, patternType=PREFIXED)"
    assert acls(empty, "explain", *BOB).out == [
        "User:bob may Read topic team-a.",
        f"This ACL decides: (principal=User:bob, host=*, operation=READ, permissionType=ALLOW) of {resource}",
    ]
    acls(empty, "add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--operation", "All", *team)
    assert acls(empty, "explain", *BOB).code == 0
    assert acls(empty, "explain", *BOB, "--host", "10.0.0.1", check=1).out == [
        "User:bob may not Read topic team-a.",
        f"This ACL decides: (principal=User:*, host=10.0.0.1, operation=ALL, permissionType=DENY) of {resource}",
    ]


def test_what_nearly_allows_it_is_named_with_the_command_that_would(empty: KafkalogBroker) -> None:
    assert acls(empty, "explain", *BOB, check=1).out == [
        "User:bob may not Read topic team-a.",
        "No ACL is about this topic: allow.everyone.if.no.acl.found decides, which is false by default.",
        "Super users of the brokers may do everything.",
        "This would allow it: kafkalog acls add --allow-principal User:bob --operation Read --topic team-a",
    ]
    acls(empty, "add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "team-")
    acls(empty, "add", "--allow-principal", "User:BOB", "--operation", "Read", "--topic", "team-a")
    where = ("--allow-host", "10.0.0.1", "--topic", "team-a")
    acls(empty, "add", "--allow-principal", "User:bob", "--operation", "Read", *where)
    acls(empty, "add", "--allow-principal", "User:bob", "--operation", "Describe", "--topic", "team-a")
    told = acls(empty, "explain", *BOB, "--json", check=1).out
    (found,) = (json.loads(line) for line in told)
    assert (found["is_allowed"], found["deciding"], found["has_acls"]) == (False, None, True)
    assert sorted(each["reason"] for each in found["near"]) == [
        "it allows DESCRIBE only",
        "it is for clients from 10.0.0.1",
        "it is literal, and no prefix",
        "the principal is written otherwise",
    ]
    lines = acls(empty, "explain", *BOB, "--host", "10.0.0.9", check=1).out
    assert lines[1] == "No ACL allows it, unless it is a super user of the brokers."
    assert lines[-1].endswith("--operation Read --topic team-a --allow-host 10.0.0.9")
    assert sum(line.startswith("Near: ") for line in lines) == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--topic", "a", "--topic", "b"), "about one resource"),
        ((), "about one resource"),
        (("--group", "g"), "GROUP only supports operations"),
    ],
)
def test_what_cannot_be_explained(broker: KafkalogBroker, words: tuple[str, ...], says: str) -> None:
    ended = acls(broker, "explain", "--principal", "User:bob", "--operation", "Write", *words, check=2)
    assert says in ended.err

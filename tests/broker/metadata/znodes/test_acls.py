"""Test the nodes of access control entries, which Apache Kafka's brokers write and read as well."""

from __future__ import annotations

import pytest
from hypothesis import given

from broker.metadata.znodes import acls
from broker.metadata.znodes.json_node import ZnodeError
from broker.security.authorizer.model import AclEntry, Entries, ResourcePattern
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.broker.security.authorizer import naive

READS = AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
ACTS = AclEntry("User:*", "10.0.0.1", AclOperation.CLUSTER_ACTION, AclPermission.DENY)


def pattern(kind: AclResourceType, name: str, pattern_type: AclPatternType = AclPatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(kind, pattern_type, name)


def test_nodes_are_where_kafka_has_them_with_its_names() -> None:
    assert acls.path(pattern(AclResourceType.TRANSACTIONAL_ID, "x")) == "/kafka-acl/TransactionalId/x"
    prefixed = pattern(AclResourceType.DELEGATION_TOKEN, "x", AclPatternType.PREFIXED)
    assert acls.path(prefixed) == "/kafka-acl-extended/prefixed/DelegationToken/x"
    assert acls.encode(frozenset({ACTS, READS})) == (
        b'{"version":1,"acls":['
        b'{"principal":"User:*","permissionType":"Deny","operation":"ClusterAction","host":"10.0.0.1"},'
        b'{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
    )
    assert acls.encode_change(pattern(AclResourceType.TOPIC, "a:b")) == b"TOPIC:a:b"
    assert acls.encode_change(pattern(AclResourceType.TOPIC, "a", AclPatternType.PREFIXED)) == (
        b'{"version":1,"resourceType":"TOPIC","name":"a","patternType":"PREFIXED"}'
    )


@given(naive.some_entries, naive.patterns)
def test_what_is_written_is_read(entries: Entries, found: ResourcePattern) -> None:
    assert acls.decode("/x", acls.encode(entries)) == entries
    notice = f"{acls.change_prefix(found.pattern_type)}0000000007"
    assert acls.decode_change(notice, acls.encode_change(found)) == found


def test_names_are_read_in_any_case() -> None:
    written = b'{"principal":"User:a","permissionType":"ALLOW","operation":"describe_configs","host":"*"}'
    data = b'{"version":1,"acls":[' + written + b"]}"
    (entry,) = acls.decode("/x", data)
    assert (entry.operation, entry.permission) == (AclOperation.DESCRIBE_CONFIGS, AclPermission.ALLOW)
    notice = f"{acls.CHANGES[AclPatternType.LITERAL]}/acl_changes_1"
    assert acls.decode_change(notice, b"Topic:x") == pattern(AclResourceType.TOPIC, "x")
    assert acls.decode("/x", b"") == frozenset()


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Unknown","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"TwoPhaseCommit","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Any","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Fly","host":"*"}]}',
    ],
)
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="/kafka-acl/Topic/x"):
        acls.decode("/kafka-acl/Topic/x", data)


@pytest.mark.parametrize("data", [b"words", b"Fly:words", b"\xff:x"])
def test_a_damaged_notice_is_named(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="acl_changes_1"):
        acls.decode_change("/kafka-acl-changes/acl_changes_1", data)
    with pytest.raises(ZnodeError, match="acl_changes_1"):
        acls.decode_change("/kafka-acl-extended-changes/acl_changes_1", data)


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\0", "\x85", "\ud800"])
def test_names_that_zookeeper_refuses(name: str) -> None:
    assert acls.name_fault(name)
    assert acls.name_fault("word.s-*_ü") is None

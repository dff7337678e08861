"""Test which access control lists follow, and what is said where they cannot."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.security.acls import AclBinding, AclFilter
from kafkalog.mirror.topics.acls import AclFollower, target_bindings
from kafkalog.mirror.topics.naming import Naming
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission
from kafkalog.protocol.acls import AclResourceType as Kind
from kafkalog.protocol.errors import SecurityDisabledError
from kafkalog.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkalog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tests.kafkalog.mirror.conftest import Clusters
from tests.support.scripted import ScriptedBroker

REMOTE = Naming("A", "B").remote
DENY, ALLOW = AclPermission.DENY, AclPermission.ALLOW


def binding(operation: AclOperation, permission: AclPermission = ALLOW, name: str = "words") -> AclBinding:
    return AclBinding(Kind.TOPIC, name, "User:ann", operation, permission, "10.0.0.1")


@pytest.mark.parametrize(
    ("given", "operation"),
    [
        (binding(AclOperation.READ), AclOperation.READ),
        (binding(AclOperation.DESCRIBE_CONFIGS), AclOperation.DESCRIBE_CONFIGS),
        # Who may do all may read; the mirror alone writes.
        (binding(AclOperation.ALL), AclOperation.READ),
        # What is denied stays denied.
        (binding(AclOperation.ALL, DENY), AclOperation.ALL),
        (binding(AclOperation.WRITE, DENY), AclOperation.WRITE),
    ],
)
def test_acls_that_follow_as_in_mirrormaker(given: AclBinding, operation: AclOperation) -> None:
    expected = given._replace(name="A.words", operation=operation)
    assert target_bindings([given], {"words"}, REMOTE) == [expected]


@pytest.mark.parametrize(
    "given",
    [
        binding(AclOperation.WRITE),
        binding(AclOperation.READ, name="other"),
        binding(AclOperation.READ, name="*"),
        binding(AclOperation.READ)._replace(pattern_type=AclPatternType.PREFIXED),
        binding(AclOperation.READ)._replace(resource_type=Kind.GROUP),
        binding(AclOperation(99)),
        binding(AclOperation.READ, AclPermission(99)),
    ],
)
def test_acls_that_are_not_mirrored(given: AclBinding) -> None:
    assert target_bindings([given], {"words", "*"}, REMOTE) == []


@pytest.fixture
def source() -> Iterator[ScriptedBroker]:
    """Return a cluster whose users may read one topic."""
    entry = AclDescription(principal="User:ann", host="*", operation=AclOperation.READ, permission_type=ALLOW)
    words = DescribeAclsResource(resource_type=Kind.TOPIC, resource_name="words", acls=[entry])
    with ScriptedBroker({DescribeAclsRequest: lambda _: DescribeAclsResponse(resources=[words])}) as broker:
        yield broker


def test_a_cluster_without_authorizer_is_named_once(
    clusters: Clusters, source: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Admin({"bootstrap.servers": source.address}) as secured,
        Admin(clusters.client("target")) as open_to_all,
        caplog.at_level(logging.INFO),
    ):
        with pytest.raises(SecurityDisabledError):
            open_to_all.acls.describe()
        with pytest.raises(SecurityDisabledError):
            open_to_all.acls.delete([AclFilter()])
        for each in (AclFollower(REMOTE, 0.0, open_to_all, secured), AclFollower(REMOTE, 0.0, secured, open_to_all)):
            for _ in range(2):
                each.follow(["words"])
    said = [(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records]
    assert said == [("INFO", "the source has no authorizer"), ("WARNING", "ACLs are not copied")]
    assert "the target has no authorizer" in caplog.messages[1]


def test_further_topics_are_followed_at_once(source: ScriptedBroker) -> None:
    created: list[str] = []

    def create(request: CreateAclsRequest) -> CreateAclsResponse:
        created.extend(each.resource_name for each in request.creations)
        return CreateAclsResponse(results=[AclCreationResult() for _ in request.creations])

    source.handlers[CreateAclsRequest] = create
    with Admin({"bootstrap.servers": source.address}) as admin:
        follower = AclFollower(REMOTE, 3600.0, admin, admin)
        follower.follow([])
        follower.follow(["other"])
        assert created == []
        follower.follow(["other", "words"])
        follower.follow(["other", "words"])
        assert created == ["A.words"]

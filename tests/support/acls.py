"""Give users rights at a secured Apache Kafka."""

from __future__ import annotations

from enum import IntEnum

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest
from peers.secured_kafka import SecuredKafka
from tests.support.waiting import wait_until

_ALLOW, _LITERAL = 3, 3


class Resource(IntEnum):
    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4


def allow(secured: SecuredKafka, user: str, operation: Operation, resource: Resource, name: str) -> None:
    """Let a user do something, and wait until the broker knows it."""
    principal = f"User:{user}"
    entry = AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=_ALLOW,
    )
    described = DescribeAclsRequest(
        resource_type_filter=resource,
        resource_name_filter=name,
        pattern_type_filter=_LITERAL,
        principal_filter=principal,
        host_filter=None,
        operation=operation,
        permission_type=_ALLOW,
    )
    with Cluster(ClientConfig.from_dict({"bootstrap.servers": secured.bootstrap})) as cluster:
        answer = cluster.request_any(CreateAclsRequest(creations=[entry]))
        assert [each.error_code for each in answer.results] == [0], answer
        wait_until(lambda: bool(cluster.request_any(described).resources), f"{entry} is known")

"""Give users rights at a secured Apache Kafka."""

from __future__ import annotations

from kafkalog.client.admin import Admin
from kafkalog.client.admin.security.acls import AclBinding, AclFilter
from kafkalog.protocol.acls import AclOperation, AclResourceType
from peers.brokers.secured_kafka import SecuredKafka
from tests.support.waiting import wait_until


def allow(secured: SecuredKafka, user: str, operation: AclOperation, resource: AclResourceType, name: str) -> None:
    """Let a user do something, and wait until the broker knows it."""
    binding = AclBinding(resource, name, f"User:{user}", operation)
    with Admin({"bootstrap.servers": secured.bootstrap}) as admin:
        admin.acls.create([binding])
        wait_until(lambda: binding in admin.acls.describe(AclFilter(resource, name)), f"{binding} is known")

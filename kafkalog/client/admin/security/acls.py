"""Access control lists: who may do what with topics, groups and the cluster (KIP-11, prefixes: KIP-290).

A binding allows or denies a principal an operation with a resource. Only clusters with an authorizer have them; the
others answer SecurityDisabledError. Source: `AclBinding`, `AclBindingFilter` and their parts in Apache Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from kafkalog.client.admin.connected import Connected
from kafkalog.client.errors import KafkaError, about, left_out
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

MAX_CREATIONS = 1000
"""The largest number of bindings that one request creates; Kafka's controllers take ten thousand."""


class AclBinding(NamedTuple):
    """One entry: `principal`, such as `User:ann`, may or may not do `operation` from `host` (`*`: any) on."""

    resource_type: AclResourceType
    name: str
    """The resource's name, or the prefix of names; `*` literally stands for all."""
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: AclPatternType = AclPatternType.LITERAL


class AclFilter(NamedTuple):
    """Selects bindings; what is None or ANY is not looked at."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY


class AclAdmin(Connected):
    """The part of `Admin` that administers access control lists; also usable by itself.

    Calls wait up to `default.api.timeout.ms` and then raise ClientTimeoutError.
    """

    def describe(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """Read the bindings that a filter selects; all of them without one.

        Raises:
            SecurityDisabledError: The cluster has no authorizer.
            ClusterAuthorizationFailedError: The principal may not describe the cluster.
        """
        wanted = wanted or AclFilter()
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        response: DescribeAclsResponse = self.cluster.request_any(request)
        if response.error_code:
            raise about(response.error_code, "ACLs", response.error_message)
        return [
            AclBinding(
                AclResourceType(resource.resource_type),
                resource.resource_name,
                each.principal,
                AclOperation(each.operation),
                AclPermission(each.permission_type),
                each.host,
                AclPatternType(resource.pattern_type),
            )
            for resource in response.resources
            for each in resource.acls
        ]

    def create(self, bindings: Iterable[AclBinding]) -> None:
        """Create bindings; those that are there already stay as they are.

        Raises:
            SecurityDisabledError: The cluster has no authorizer.
            ClusterAuthorizationFailedError: The principal may not alter the cluster.
            InvalidRequestError: A binding is not valid.
        """
        for _, error in self.try_to_create(bindings):
            if error is not None:
                raise error

    def try_to_create(self, bindings: Iterable[AclBinding]) -> list[tuple[AclBinding, KafkaError | None]]:
        """Create bindings as `create` does; return each with the error by which the cluster refuses it, if it does."""
        wanted = list(bindings)
        found: list[tuple[AclBinding, KafkaError | None]] = []
        for first in range(0, len(wanted), MAX_CREATIONS):
            some = wanted[first : first + MAX_CREATIONS]
            response: CreateAclsResponse = self.cluster.request_any(
                CreateAclsRequest(creations=[_creation(binding) for binding in some])
            )
            for binding, each in zip_longest(some, response.results[: len(some)]):
                error = None
                if each is None:
                    error = left_out(_text(binding))
                elif each.error_code:
                    error = about(each.error_code, _text(binding), each.error_message)
                found.append((binding, error))
        return found

    def delete(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        """Delete the bindings that any of the filters selects; return them.

        Raises:
            SecurityDisabledError: The cluster has no authorizer.
            ClusterAuthorizationFailedError: The principal may not alter the cluster.
            KafkaError: A binding could not be deleted.
        """
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=each.resource_type,
                    resource_name_filter=each.name,
                    pattern_type_filter=each.pattern_type,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in filters
            ]
        )
        response: DeleteAclsResponse = self.cluster.request_any(request)
        deleted: dict[AclBinding, None] = {}
        for result in response.filter_results:
            if result.error_code:
                raise about(result.error_code, "ACLs", result.error_message)
            for each in result.matching_acls:
                binding = AclBinding(
                    AclResourceType(each.resource_type),
                    each.resource_name,
                    each.principal,
                    AclOperation(each.operation),
                    AclPermission(each.permission_type),
                    each.host,
                    AclPatternType(each.pattern_type),
                )
                if each.error_code:
                    raise about(each.error_code, _text(binding), each.error_message)
                deleted[binding] = None
        if len(response.filter_results) < len(filters):
            raise left_out("a filter of ACLs")
        return list(deleted)


def _creation(binding: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=binding.resource_type,
        resource_name=binding.name,
        resource_pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _text(binding: AclBinding) -> str:
    kind = binding.resource_type.name.lower().replace("_", " ")
    verb = "may not" if binding.permission is AclPermission.DENY else "may"
    return f"the ACL of {kind} {binding.name} ({binding.principal} {verb} {binding.operation.name})"

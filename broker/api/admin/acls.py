"""DescribeAcls (key 29), CreateAcls (key 30) and DeleteAcls (key 31): access control entries.

Without an authorizer there are none, and the answer is SECURITY_DISABLED, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.security.authorizer.filters import AclFilter
from broker.security.authorizer.model import AclBinding, AclEntry, ResourcePattern, is_known
from kafkalog.protocol.acls import AclCode, AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    KafkaError,
    SecurityDisabledError,
)
from kafkalog.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kafkalog.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkalog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

Code = TypeVar("Code", bound=AclCode)


def _refusal(request: Request) -> KafkaError | None:
    """Return why a request that changes entries is refused as a whole; None if it is not."""
    if request.broker.authorizer is None:
        return SecurityDisabledError("No Authorizer is configured.")
    return None if request.allows_cluster(AclOperation.ALTER) else ClusterAuthorizationFailedError()


def _code(kind: Callable[[int], Code], number: int) -> Code:
    code = kind(number)
    if not is_known(code):
        raise InvalidRequestError("The ACL has elements that are unknown")
    return code


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    # Version 0 has no pattern types: it is about literal patterns.
    return AclFilter(
        _code(AclResourceType, wanted.resource_type_filter),
        _code(AclPatternType, wanted.pattern_type_filter),
        wanted.resource_name_filter,
        wanted.principal_filter,
        wanted.host_filter,
        _code(AclOperation, wanted.operation),
        _code(AclPermission, wanted.permission_type),
    )


@needs_cluster(AclOperation.DESCRIBE)
async def handle_describe_acls(request: Request) -> None:
    response = DescribeAclsResponse(error_message=None)
    try:
        if request.broker.authorizer is None:
            raise SecurityDisabledError("No Authorizer is configured on the broker")
        wanted = _filter(request.message)
        async for pattern, present in request.each(wanted.candidates(request.broker.acls.acls)):
            entries = wanted.picked(pattern, present)
            if not entries:
                continue
            kind, pattern_type, name = pattern
            described = [
                AclDescription(
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                async for entry in request.each(sorted(entries))
            ]
            response.resources.append(
                DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern_type, acls=described)
            )
    except KafkaError as error:
        response.error_code, response.error_message = error_code(error), error_message(error)
    await request.answer(response)


def _binding(wanted: AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            _code(AclResourceType, wanted.resource_type),
            _code(AclPatternType, wanted.resource_pattern_type),
            wanted.resource_name,
        ),
        AclEntry(
            wanted.principal,
            wanted.host,
            _code(AclOperation, wanted.operation),
            _code(AclPermission, wanted.permission_type),
        ),
    )


async def handle_create_acls(request: Request) -> None:
    message: CreateAclsRequest = request.message
    refusal = _refusal(request)
    results: list[AclCreationResult] = []
    wanted: list[AclBinding] = []
    asked: list[AclCreationResult] = []
    async for creation in request.each(message.creations):
        result = AclCreationResult(error_message=None)
        results.append(result)
        try:
            if refusal is not None:
                raise refusal
            wanted.append(_binding(creation))
            asked.append(result)
        except KafkaError as error:
            _put(result, error)
    if wanted:
        outcomes = await request.broker.acls.create(wanted)
        async for result, failed in request.each(zip(asked, outcomes, strict=True)):
            if failed is not None:
                _put(result, failed)
    await request.answer(CreateAclsResponse(results=results))


async def handle_delete_acls(request: Request) -> None:
    message: DeleteAclsRequest = request.message
    refusal = _refusal(request)
    results: list[DeleteAclsFilterResult] = []
    wanted: list[AclFilter] = []
    asked: list[DeleteAclsFilterResult] = []
    async for each in request.each(message.filters):
        result = DeleteAclsFilterResult(error_message=None)
        results.append(result)
        try:
            if refusal is not None:
                raise refusal
            wanted.append(_filter(each))
            asked.append(result)
        except KafkaError as error:
            _put(result, error)
    if wanted:
        try:
            deleted = await request.broker.acls.delete(wanted)
        except KafkaError as error:
            async for result in request.each(asked):
                _put(result, error)
        else:
            async for result, bindings in request.each(zip(asked, deleted, strict=True)):
                result.matching_acls = [_deleted(binding) async for binding in request.each(sorted(bindings))]
    await request.answer(DeleteAclsResponse(filter_results=results))


def _deleted(binding: AclBinding) -> DeleteAclsMatchingAcl:
    (kind, pattern_type, name), entry = binding
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _put(result: AclCreationResult | DeleteAclsFilterResult, error: KafkaError) -> None:
    result.error_code, result.error_message = error_code(error), error_message(error)


HANDLERS = {
    DescribeAclsRequest: handle_describe_acls,
    CreateAclsRequest: handle_create_acls,
    DeleteAclsRequest: handle_delete_acls,
}

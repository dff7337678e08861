"""DescribeAcls, CreateAcls, DeleteAcls: answered as Kafka does without an authorizer."""

from __future__ import annotations

from broker.api.context import Request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_CODE = ErrorCode.SECURITY_DISABLED
_MESSAGE = "No Authorizer is configured on the broker"
_CHANGE_MESSAGE = "No Authorizer is configured."


def handle_describe_acls(request: Request) -> None:
    request.reply(DescribeAclsResponse(error_code=_CODE, error_message=_MESSAGE))


async def handle_create_acls(request: Request) -> None:
    message: CreateAclsRequest = request.message
    results = [
        AclCreationResult(error_code=_CODE, error_message=_CHANGE_MESSAGE)
        async for _ in request.each(message.creations)
    ]
    await request.answer(CreateAclsResponse(results=results))


async def handle_delete_acls(request: Request) -> None:
    message: DeleteAclsRequest = request.message
    results = [
        DeleteAclsFilterResult(error_code=_CODE, error_message=_CHANGE_MESSAGE)
        async for _ in request.each(message.filters)
    ]
    await request.answer(DeleteAclsResponse(filter_results=results))


HANDLERS = {
    DescribeAclsRequest: handle_describe_acls,
    CreateAclsRequest: handle_create_acls,
    DeleteAclsRequest: handle_delete_acls,
}

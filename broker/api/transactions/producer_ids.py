"""InitProducerId (key 22): an id and epoch for an idempotent (KIP-98) or a transactional producer."""

from __future__ import annotations

from broker.api.context import Request
from broker.api.errors import error_code
from broker.coordinator.transaction.machine import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Producer
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    ErrorCode,
    InvalidRequestError,
    TransactionalIdAuthorizationFailedError,
)
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE = 4
"""From this version on, clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH, its predecessor."""


async def handle_init_producer_id(request: Request) -> None:
    response = InitProducerIdResponse(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    try:
        response.producer_id, response.producer_epoch = await _init(request)
    except Exception as error:
        code = error_code(error)
        if code is ErrorCode.PRODUCER_FENCED and request.version < FENCED_SINCE:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        response.error_code = code
    request.reply(response)


async def _init(request: Request) -> Producer:
    message: InitProducerIdRequest = request.message
    _check_allowed(request, message.transactional_id)
    if (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequestError
    if message.transactional_id is None:
        # There is nothing to raise: the producer begins anew under a fresh id.
        return Producer(await request.broker.producer_ids.allocate(), 0)
    expected = None
    if message.producer_id != NO_PRODUCER_ID:
        expected = Producer(message.producer_id, message.producer_epoch)
    return await request.broker.transactions.coordinator.init_producer_id(
        message.transactional_id, message.transaction_timeout_ms, expected
    )


def _check_allowed(request: Request, transactional_id: str | None) -> None:
    """Refuse a client that may neither use the transactional id nor, without one, write anywhere.

    Raises:
        TransactionalIdAuthorizationFailedError, ClusterAuthorizationFailedError: it may not.
    """
    if transactional_id is not None:
        if not request.allows(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
            raise TransactionalIdAuthorizationFailedError
    elif not (
        request.allows_cluster(AclOperation.IDEMPOTENT_WRITE, tells_denied=False)
        or request.allows_any(AclOperation.WRITE, AclResourceType.TOPIC)
    ):
        raise ClusterAuthorizationFailedError


HANDLERS = {InitProducerIdRequest: handle_init_producer_id}

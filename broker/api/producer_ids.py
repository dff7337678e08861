"""InitProducerId (key 22): an id and epoch for an idempotent producer (KIP-98).

Transactional ids belong to the transaction coordinator; while none is available, producers that ask for one are told
so, as Kafka tells them, and look for it again.
"""

from __future__ import annotations

from broker.api.context import Request
from broker.api.errors import error_code
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


async def handle_init_producer_id(request: Request) -> None:
    message: InitProducerIdRequest = request.message
    response = InitProducerIdResponse(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    if message.transactional_id is not None:
        empty = message.transactional_id == ""
        response.error_code = ErrorCode.INVALID_REQUEST if empty else ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_PRODUCER_EPOCH):
        response.error_code = ErrorCode.INVALID_REQUEST
    else:
        try:
            # Without a transactional id there is nothing to bump: the producer begins anew under a fresh id.
            response.producer_id = await request.broker.producer_ids.allocate()
            response.producer_epoch = 0
        except Exception as error:
            response.error_code = error_code(error)
    request.reply(response)


HANDLERS = {InitProducerIdRequest: handle_init_producer_id}

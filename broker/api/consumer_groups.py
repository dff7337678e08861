"""ConsumerGroupHeartbeat (key 68) and ConsumerGroupDescribe (69), of the consumer protocol (KIP-848)."""

from __future__ import annotations

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.api.groups import ALL_GROUP_OPERATIONS, NO_AUTHORIZED_OPERATIONS
from kafkalog.protocol.messages import consumer_group_describe, consumer_group_heartbeat


async def handle_consumer_group_heartbeat(request: Request) -> None:
    message: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest = request.message
    try:
        response = await request.broker.consumer_groups.heartbeat(
            # As Java writes an address without a name.
            message,
            request.version,
            request.client_id or "",
            f"/{request.connection.peer}",
        )
    except Exception as error:
        response = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
            error_code=error_code(error), error_message=error_message(error)
        )
    request.reply(response)


async def handle_consumer_group_describe(request: Request) -> None:
    message: consumer_group_describe.ConsumerGroupDescribeRequest = request.message
    operations = ALL_GROUP_OPERATIONS if message.include_authorized_operations else NO_AUTHORIZED_OPERATIONS
    turn = request.take_turns()
    response = consumer_group_describe.ConsumerGroupDescribeResponse()
    # A group that is named twice is described once, as by DescribeGroups: it may have many members.
    for group_id in dict.fromkeys(message.group_ids):
        try:
            group = request.broker.consumer_groups.describe(group_id)
            group.authorized_operations = operations
        except Exception as error:
            group = consumer_group_describe.DescribedGroup(
                group_id=group_id, error_code=error_code(error), error_message=error_message(error)
            )
        response.groups.append(group)
        if turn.is_over:
            await turn.end()
            if request.connection.closed:
                return
    await request.answer(response)


HANDLERS = {
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: handle_consumer_group_heartbeat,
    consumer_group_describe.ConsumerGroupDescribeRequest: handle_consumer_group_describe,
}

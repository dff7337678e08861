"""ConsumerGroupHeartbeat (key 68) and ConsumerGroupDescribe (69), of the consumer protocol (KIP-848).

They are answered as by a Kafka broker that has the consumer protocol switched off, with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from broker.api.context import Request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages import consumer_group_describe, consumer_group_heartbeat


def handle_consumer_group_heartbeat(request: Request) -> None:
    request.reply(consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))


def handle_consumer_group_describe(request: Request) -> None:
    message: consumer_group_describe.ConsumerGroupDescribeRequest = request.message
    groups = [
        consumer_group_describe.DescribedGroup(group_id=group, error_code=ErrorCode.UNSUPPORTED_VERSION)
        for group in message.group_ids
    ]
    request.reply(consumer_group_describe.ConsumerGroupDescribeResponse(groups=groups))


HANDLERS = {
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: handle_consumer_group_heartbeat,
    consumer_group_describe.ConsumerGroupDescribeRequest: handle_consumer_group_describe,
}

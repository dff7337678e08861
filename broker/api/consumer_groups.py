"""ConsumerGroupHeartbeat (key 68) and ConsumerGroupDescribe (69), of the consumer protocol (KIP-848)."""

from __future__ import annotations

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.api.groups import ALL_GROUP_OPERATIONS, NO_AUTHORIZED_OPERATIONS
from kafkalog.protocol.errors import InvalidRequestError
from kafkalog.protocol.messages import consumer_group_describe, consumer_group_heartbeat

MOST_TOPICS = 20_000
"""Topics that a member may be subscribed to by name. A group looks at those of a member in one turn.

Apache Kafka sets no bound but that they have to fit into one record.
"""
MOST_OWNED = 50_000
"""Partitions that a member may own."""


async def handle_consumer_group_heartbeat(request: Request) -> None:
    message: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest = request.message
    try:
        _check_size(message)
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


def _check_size(message: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest) -> None:
    topics = len(message.subscribed_topic_names or ())
    if topics > MOST_TOPICS:
        raise InvalidRequestError(f"SubscribedTopicNames has {topics} topics, more than {MOST_TOPICS}.")
    owned = message.topic_partitions or ()
    # A topic of which nothing is owned counts, too: it takes time all the same.
    if len(owned) > MOST_OWNED or sum(max(len(topic.partitions), 1) for topic in owned) > MOST_OWNED:
        raise InvalidRequestError(f"TopicPartitions has more than {MOST_OWNED} partitions.")


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

"""ConsumerGroupHeartbeat (key 68) and ConsumerGroupDescribe (69), of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from broker.api.authorization import TopicRights
from broker.api.context import Request
from broker.api.errors import error_code, error_message
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    GroupAuthorizationFailedError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    UnknownServerError,
)
from kafkalog.protocol.messages import consumer_group_describe, consumer_group_heartbeat

NAMED_AT_ONCE = 10_000
"""The number of topic names of a request that are examined before other connections get their turn."""
MOST_NAMED = MOST_OWNED = 200_000
"""The most topics to which a member may be subscribed by name, and the most partitions that it may own.

Apache Kafka recommends at most this many partitions for a whole cluster on ZooKeeper, but has no limit itself. A group
examines all names in one turn.
"""


async def handle_consumer_group_heartbeat(request: Request) -> None:
    message: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest = request.message
    owned: dict[UUID, frozenset[int]] = {}
    try:
        if not request.allows(AclOperation.READ, AclResourceType.GROUP, message.group_id):
            raise GroupAuthorizationFailedError
        await _find_owned(request, message.topic_partitions or (), owned)
        if message.subscribed_topic_names is not None:
            message.subscribed_topic_names = await _distinct(request, message.subscribed_topic_names)
            await _check_topics(request, message.subscribed_topic_names)
        response = await request.broker.consumer_groups.heartbeat(
            # Java writes an address without a name like this.
            message,
            request.version,
            request.client_id or "",
            f"/{request.connection.peer}",
            None if message.topic_partitions is None else owned,
            request.seen_topics,
        )
    except Exception as error:
        response = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
            error_code=error_code(error), error_message=error_message(error)
        )
    await request.answer(response, owned)


async def _check_topics(request: Request, names: Iterable[str]) -> None:
    """Refuse a member that may not know of a topic by whose name it subscribes, as Apache Kafka 4 does.

    The assignment would tell it that the topic exists, its id and its partitions.

    Raises:
        TopicAuthorizationFailedError: there is such a topic among the names.
    """
    if request.broker.authorizer is not None:
        async for name in request.each(names):
            if not request.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
                raise TopicAuthorizationFailedError


async def _distinct(request: Request, names: list[str]) -> list[str]:
    """Return the names without repetitions, in the order of the first of each.

    Raises:
        InvalidRequestError: there are more than `MOST_NAMED`.
        UnknownServerError: no record of the group can hold them. Apache Kafka answers the same, when it
            stores the member after it has made an assignment.
        KafkaError: the group's coordinator is not here.
    """
    if len(names) <= NAMED_AT_ONCE:
        return names
    most = request.broker.groups.most_stored(request.message.group_id)
    distinct: dict[str, None] = {}
    size = 0
    turn = request.take_turns()
    for begin in range(0, len(names), NAMED_AT_ONCE):
        some = dict.fromkeys(names[begin : begin + NAMED_AT_ONCE])
        # In the record each name is preceded by its length.
        size += sum(len(name.encode()) + 1 for name in some.keys() - distinct.keys())
        if size > most:
            raise UnknownServerError
        distinct |= some
        if len(distinct) > MOST_NAMED:
            raise InvalidRequestError(f"SubscribedTopicNames has more than {MOST_NAMED} topics.")
        if turn.is_over:
            await turn.end()
    return list(distinct)


async def _find_owned(
    request: Request,
    topics: Sequence[consumer_group_heartbeat.TopicPartitions],
    owned: dict[UUID, frozenset[int]],
) -> None:
    """Put the partitions that a member owns into `owned`; topics that appear twice are joined.

    Raises:
        InvalidRequestError: there are more than `MOST_OWNED`.
    """
    found: dict[UUID, set[int]] = {}
    count = 0
    turn = request.take_turns()
    for topic in topics:
        # A topic of which nothing is owned counts, too: it takes time all the same.
        count += max(len(topic.partitions), 1)
        if count > MOST_OWNED:
            raise InvalidRequestError(f"TopicPartitions has more than {MOST_OWNED} partitions.")
        if topic.partitions:
            found.setdefault(topic.topic_id, set()).update(topic.partitions)
        if turn.is_over:
            await turn.end()
    while found:
        topic_id, partitions = found.popitem()
        owned[topic_id] = frozenset(partitions)
        if turn.is_over:
            await turn.end()


async def handle_consumer_group_describe(request: Request) -> None:
    message: consumer_group_describe.ConsumerGroupDescribeRequest = request.message
    response = consumer_group_describe.ConsumerGroupDescribeResponse()
    # A group that is named twice is described once, as by DescribeGroups: it may have many members.
    wanted = await request.distinct(message.group_ids)
    async for group_id in request.each(wanted):
        try:
            if not request.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
                raise GroupAuthorizationFailedError
            group = request.broker.consumer_groups.describe(group_id)
            if not _sees_topics(request, group):
                raise TopicAuthorizationFailedError(
                    "The group has described topic(s) that the client is not authorized to describe."
                )
            group.authorized_operations = request.authorized_operations(
                message.include_authorized_operations, AclResourceType.GROUP, group_id
            )
        except Exception as error:
            group = consumer_group_describe.DescribedGroup(
                group_id=group_id, error_code=error_code(error), error_message=error_message(error)
            )
        response.groups.append(group)
    await request.answer(response, wanted)


def _sees_topics(request: Request, group: consumer_group_describe.DescribedGroup) -> bool:
    """Return whether the client may know of all topics of a group's members."""
    rights = TopicRights(request, AclOperation.DESCRIBE)
    return all(
        rights.allow(topic.topic_name)
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    )


HANDLERS = {
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: handle_consumer_group_heartbeat,
    consumer_group_describe.ConsumerGroupDescribeRequest: handle_consumer_group_describe,
}

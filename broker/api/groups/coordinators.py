"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id.

The first request creates the internal topic. The answer is the leader of the partition that keeps the state, under the
listener that the client used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.api.cluster.unknown_cluster import knows_cluster
from broker.api.context import Request
from broker.api.errors import error_code
from broker.api.large import Turn
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    ErrorCode,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    KafkaError,
    TransactionalIdAuthorizationFailedError,
)
from kafkalog.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalog.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

MANY_SINCE = 4
"""Versions that have several keys in one request."""
SHARE_SINCE = 6
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Key types."""


async def handle_find_coordinator(request: Request) -> None:
    message: FindCoordinatorRequest = request.message
    if not await knows_cluster(request):
        return
    if request.version < MANY_SINCE:
        only = (await _find(request, [message.key], request.take_turns()))[0]
        request.reply(
            FindCoordinatorResponse(
                error_code=only.error_code,
                error_message=only.error_message,
                node_id=only.node_id,
                host=only.host,
                port=only.port,
            )
        )
        return
    turn = request.take_turns()
    response = FindCoordinatorResponse(coordinators=await _find(request, message.coordinator_keys, turn))
    await request.answer(response)


async def _find(request: Request, keys: Sequence[str], turn: Turn) -> list[Coordinator]:
    """Find the coordinators of keys of the request's type; other requests get their turn in between."""
    denied = []
    for key in keys:
        denied.append(_denial(request, key))
        if turn.is_over:
            await turn.end()
    topic, partition_for = "", _raising(CoordinatorNotAvailableError())
    if None in denied:
        try:
            topic, partition_for = await _topic_of(request)
        except Exception as error:
            partition_for = _raising(error)
    turn.begin()
    found = []
    for key, denial in zip(keys, denied, strict=True):
        found.append(_coordinator(request, key, topic, partition_for if denial is None else _raising(denial)))
        if turn.is_over:
            await turn.end()
            if request.connection.closed:
                break
    return found


def _raising(error: Exception) -> Callable[[str], int]:
    """Return a function that stands for a key's partition where there is none."""

    def partition_for(key: str) -> int:
        raise error

    return partition_for


def _denial(request: Request, key: str) -> KafkaError | None:
    """Return why the client may not know of a key's coordinator; None if it may."""
    kind = request.message.key_type
    if kind == GROUP and not request.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, key):
        return GroupAuthorizationFailedError()
    if kind == TRANSACTION and not request.allows(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, key):
        return TransactionalIdAuthorizationFailedError()
    if kind == SHARE and request.version >= SHARE_SINCE and not request.allows_cluster(AclOperation.CLUSTER_ACTION):
        return ClusterAuthorizationFailedError()
    return None


async def _topic_of(request: Request) -> tuple[str, Callable[[str], int]]:
    """Return the topic whose leaders coordinate keys of the request's type, and a key's partition in it.

    Raises:
        KafkaError: the topic cannot be made, or there is no such type.
    """
    broker, kind = request.broker, request.message.key_type
    if kind == SHARE and request.version >= SHARE_SINCE:
        raise CoordinatorNotAvailableError("Share groups are not supported.")
    if kind == GROUP:
        await broker.groups.ready()
        return CONSUMER_OFFSETS, broker.groups.partition_for
    if kind == TRANSACTION:
        await broker.transactions.ready()
        return TRANSACTION_STATE, broker.transactions.partition_for
    raise InvalidRequestError(f"Unknown coordinator type {kind}")


def _coordinator(request: Request, key: str, topic: str, partition_for: Callable[[str], int]) -> Coordinator:
    broker = request.broker
    try:
        leader = broker.metadata.leader(topic, partition_for(key))
        endpoint = broker.metadata.endpoint(leader, request.connection.endpoint.name)
        if endpoint is None:
            raise CoordinatorNotAvailableError
    except Exception as error:
        message = error.message if isinstance(error, KafkaError) else None
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code(error), error_message=message)
    return Coordinator(
        key=key,
        node_id=leader,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


HANDLERS = {FindCoordinatorRequest: handle_find_coordinator}

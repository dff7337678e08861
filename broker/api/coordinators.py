"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id.

The internal topic is made when the first client asks. The answer is the leader of the partition that keeps the state,
under the listener that the client used.
"""

from __future__ import annotations

from broker.api.context import Request
from broker.api.errors import error_code
from kafkalog.protocol.errors import CoordinatorNotAvailableError, ErrorCode, InvalidRequestError, KafkaError
from kafkalog.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalog.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

MANY_SINCE = 4
"""Versions that ask for many keys at once."""
SHARE_SINCE = 6
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Key types."""


async def handle_find_coordinator(request: Request) -> None:
    message: FindCoordinatorRequest = request.message
    keys = message.coordinator_keys if request.version >= MANY_SINCE else [message.key]
    found = [await _find(request, key) for key in keys]
    if request.version >= MANY_SINCE:
        request.reply(FindCoordinatorResponse(coordinators=found))
        return
    only = found[0]
    request.reply(
        FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )
    )


async def _find(request: Request, key: str) -> Coordinator:
    broker = request.broker
    kind = request.message.key_type
    try:
        if kind == SHARE and request.version >= SHARE_SINCE:
            raise CoordinatorNotAvailableError("Share groups are not supported.")
        if kind == GROUP:
            await broker.groups.ready()
            topic, index = CONSUMER_OFFSETS, broker.groups.partition_for(key)
        elif kind == TRANSACTION:
            await broker.transactions.ready()
            topic, index = TRANSACTION_STATE, broker.transactions.partition_for(key)
        else:
            raise InvalidRequestError(f"Unknown coordinator type {kind}")
        leader = broker.metadata.leader(topic, index)
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

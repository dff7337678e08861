"""LeaderAndIsr (key 4), StopReplica (key 5) and UpdateMetadata (key 6), which the controller sends to a member.

Quotas of clients are not for them.
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code
from broker.member.control.control import Control
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkalog.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def _control(request: Request) -> Control:
    member = request.broker.member
    # The dispatcher serves these to members only.
    assert member is not None
    return member.control


@needs_cluster(AclOperation.CLUSTER_ACTION)
async def handle_leader_and_isr(request: Request) -> None:
    try:
        response = await _control(request).leader_and_isr(request.message, request.version)
    except Exception as error:
        response = LeaderAndIsrResponse(error_code=error_code(error))
    request.reply(response, 0)


@needs_cluster(AclOperation.CLUSTER_ACTION)
async def handle_stop_replica(request: Request) -> None:
    try:
        response = await _control(request).stop_replica(request.message, request.version)
    except Exception as error:
        response = StopReplicaResponse(error_code=error_code(error))
    request.reply(response, 0)


@needs_cluster(AclOperation.CLUSTER_ACTION)
def handle_update_metadata(request: Request) -> Awaitable[None] | None:
    if _control(request).is_early(request.message.broker_epoch):
        return _update_when_registered(request)
    _update(request)
    return None


async def _update_when_registered(request: Request) -> None:
    await _control(request).until_registered(request.message.broker_epoch)
    _update(request)


def _update(request: Request) -> None:
    try:
        _control(request).update_metadata(request.message, request.version)
        if request.broker.controller is not None:
            request.broker.controller.learn(request.message)
        response = UpdateMetadataResponse()
    except Exception as error:
        response = UpdateMetadataResponse(error_code=error_code(error))
    request.reply(response, 0)


MEMBER_HANDLERS = {
    LeaderAndIsrRequest: handle_leader_and_isr,
    StopReplicaRequest: handle_stop_replica,
    UpdateMetadataRequest: handle_update_metadata,
}

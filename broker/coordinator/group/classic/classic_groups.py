"""The requests of the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Members of the classic protocol may belong to a group of the consumer protocol, too (KIP-848): the requests are served
by either kind of group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.requests import (
    JoinRequest,
    JoinResult,
    Leaver,
    SyncRequest,
    SyncResult,
    check_lengths,
    subscription_bytes,
)
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership
from broker.coordinator.group.service import GroupCoordinator
from kafkalog.protocol.errors import (
    CoordinatorLoadInProgressError,
    ErrorCode,
    InvalidSessionTimeoutError,
    KafkaError,
    UnknownServerError,
)

T = TypeVar("T")
LEAVING_AT_ONCE = 500
"""Number of members that leave before other requests get their turn."""


class ClassicGroups:
    """Serves the requests of the classic protocol. Used on the event loop's thread only."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def join(self, group_id: str, request: JoinRequest) -> JoinResult:
        """Handle JoinGroup; the answer comes when the group has its next generation.

        Raises:
            InvalidSessionTimeoutError: the session timeout is not one that the broker allows.
            InvalidRequestError: a field is too long for the group's records.
            UnknownServerError: no record of a group of the consumer protocol can hold the subscriptions.
            KafkaError: the group cannot be used.
        """
        config = self._coordinator.config
        low, high = config["group.min.session.timeout.ms"], config["group.max.session.timeout.ms"]
        partition_groups = self._coordinator.partition_groups_for(group_id)
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeoutError
        check_lengths(request)
        found = partition_groups.classic(group_id, create=request.member_id == "")
        if found is None:
            return JoinResult(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        group, classic = found
        size = subscription_bytes(request.protocols)
        # Such a group reads the subscription before the log can refuse it.
        if isinstance(classic, ConsumerMembership) and size > self._coordinator.most_stored(group_id):
            raise UnknownServerError
        token: asyncio.Future[JoinResult | KafkaError] = asyncio.get_running_loop().create_future()
        classic.join(request, token, self._coordinator.now())
        partition_groups.settle(group)
        return _result(await token)

    async def sync(self, group_id: str, request: SyncRequest) -> SyncResult:
        """Handle SyncGroup; the answer comes when the assignments are stored."""
        try:
            partition_groups = self._coordinator.partition_groups_for(group_id)
        except CoordinatorLoadInProgressError:
            # The rebalance is lost with the coordinator, so the member must join again. Old clients do not know the
            # error here.
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        found = partition_groups.classic(group_id, create=False)
        if found is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        group, classic = found
        assigns = isinstance(classic, ClassicGroup) and classic.awaits_assignments_of(request.member_id)
        token: asyncio.Future[SyncResult | KafkaError] = asyncio.get_running_loop().create_future()
        classic.sync(request, token, self._coordinator.now())
        partition_groups.settle(group)
        result = _result(await token)
        self._coordinator.counters.completed_rebalances += assigns and result.error is ErrorCode.NONE
        return result

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Handle Heartbeat."""
        try:
            partition_groups = self._coordinator.partition_groups_for(group_id)
        except CoordinatorLoadInProgressError:
            # The member's session begins when its group is loaded.
            return ErrorCode.NONE
        found = partition_groups.classic(group_id, create=False)
        if found is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group, classic = found
        error = classic.heartbeat(member_id, instance_id, generation, self._coordinator.now())
        partition_groups.settle(group)
        return error

    async def leave(self, group_id: str, members: Sequence[Leaver]) -> list[ErrorCode]:
        """Handle LeaveGroup of members; return the error of each.

        From a group of the consumer protocol they leave in one change, and the answer waits until it is stored. If a
        request names more than `LEAVING_AT_ONCE` members, they leave in portions, and others have their turn in
        between.

        Raises:
            KafkaError: the group cannot be used, or the change could not be stored: none of them has left.
        """
        errors: list[ErrorCode] = []
        for first in range(0, max(len(members), 1), LEAVING_AT_ONCE):
            some = members[first : first + LEAVING_AT_ONCE]
            if first:
                await asyncio.sleep(0)
            try:
                errors += await self._leave(group_id, some)
            except KafkaError as error:
                if not first:
                    raise
                errors += [error.code for _ in some]
        return errors

    async def _leave(self, group_id: str, members: Sequence[Leaver]) -> list[ErrorCode]:
        partition_groups = self._coordinator.partition_groups_for(group_id)
        found = partition_groups.classic(group_id, create=False)
        if found is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in members]
        group, classic = found
        now = self._coordinator.now()
        if isinstance(classic, ConsumerMembership):
            token: asyncio.Future[list[ErrorCode] | KafkaError] = asyncio.get_running_loop().create_future()
            classic.leave(members, token, now)
            partition_groups.settle(group)
            return _result(await token)
        errors = [classic.leave(*member, now) for member in members]
        partition_groups.settle(group)
        return errors


def _result(result: T | KafkaError) -> T:
    """Return the result of a token, or raise it when it is an error."""
    if isinstance(result, KafkaError):
        raise result
    return result

"""Heartbeat (key 12, versions 0 to 4): a member lives, and asks whether its group rebalances.

Version 3 knows static members, 4 is flexible.

Errors: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, INVALID_GROUP_ID,
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, int16, int32, string


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0+")


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id: str = string("0+")
    generation_id: int = int32("0+")  # ILLEGAL_GENERATION unless the present one
    member_id: str = string("0+")
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("3+", nullable="3+", default=None)

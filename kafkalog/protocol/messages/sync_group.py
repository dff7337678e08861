"""SyncGroup (key 14, versions 0 to 5): the leader hands in assignments, and every member gets its own.

Version 3 knows static members, 4 is flexible, 5 tells the protocol.

Errors: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
INCONSISTENT_GROUP_PROTOCOL, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, bytes_, int16, int32, string


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = bytes_("0+")  # opaque to the broker


class SyncGroupRequestAssignment(Struct):
    member_id: str = string("0+")
    assignment: bytes = bytes_("0+")  # opaque to the broker


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: str = string("0+")
    generation_id: int = int32("0+")  # ILLEGAL_GENERATION unless the present one
    member_id: str = string("0+")
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    # filled by the leader alone
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")

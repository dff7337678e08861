"""LeaveGroup (key 13, versions 0 to 5): members leave a group.

Version 3 takes several members, static ones too, 4 is flexible, 5 carries a reason.

Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int16, int32, string


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")  # set for a static member (KIP-345)
    error_code: int = int16("3+")


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")


class MemberIdentity(Struct):
    member_id: str = string("3+")
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)  # for the log (KIP-800)


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")

"""JoinGroup (key 11, versions 0 to 9): become a member of a group, and wait for its next generation.

Version 1 has a rebalance timeout, 4 hands out member ids first (MEMBER_ID_REQUIRED), 5 static members, 6 is
flexible, 7 tells the protocol type, 8 carries a reason, 9 can forbid the leader to assign.

Errors: MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT,
INVALID_GROUP_ID, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, bytes_, int16, int32, string


class JoinGroupResponseMember(Struct):
    member_id: str = string("0+")
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = bytes_("0+")


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)  # ILLEGAL_GENERATION unless the present one
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")  # the assignor that all share
    leader: str = string("0+")  # member id
    skip_assignment: bool = boolean("9+")  # the leader must keep the assignment that there is (KIP-814)
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")  # told to the leader alone


class JoinGroupRequestProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = bytes_("0+")  # the member's subscription, opaque to the broker


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")  # INVALID_SESSION_TIMEOUT
    # how long a rebalance waits for the member; before, the session timeout
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")  # empty to join first; MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")  # "consumer"; INCONSISTENT_GROUP_PROTOCOL
    # assignors, the preferred first
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)  # for the log (KIP-800)

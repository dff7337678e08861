"""DescribeGroups (key 15, versions 0 to 5): state, members and assignments of groups.

Version 3 tells authorized operations, 4 static members, 5 is flexible.

Errors of a group: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED. A group that does not exist is in state Dead, without error.
"""

from __future__ import annotations

from kafkalog.protocol.schema import STRING, Request, Response, Struct, array, boolean, bytes_, int16, int32, string


class DescribedGroupMember(Struct):
    member_id: str = string("0+")
    # set for a static member (KIP-345)
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = bytes_("0+")
    member_assignment: bytes = bytes_("0+")


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    group_id: str = string("0+")
    group_state: str = string("0+")  # empty where the group is unknown
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")  # name of the assignor
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    # a bit for each ACL operation; the least int32 where not asked
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Response, key=15, versions="0-5", flexible="5+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class DescribeGroupsRequest(Request, key=15, versions="0-5", flexible="5+"):
    groups: list[str] = array(STRING, "0+")
    include_authorized_operations: bool = boolean("3+")

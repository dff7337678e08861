"""DeleteGroups (key 42, versions 0 to 2): delete groups that have no members.

Version 2 is flexible.

Errors of a group: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import STRING, Request, Response, Struct, array, int16, int32, string


class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(STRING, "0+")

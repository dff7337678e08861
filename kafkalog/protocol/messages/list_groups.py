"""ListGroups (key 16, versions 0 to 5): the groups that this broker coordinates.

Version 3 is flexible, 4 filters by state, 5 by type.

Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import STRING, Request, Response, Struct, array, int16, int32, string


class ListedGroup(Struct):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(STRING, "4+")  # empty for all
    types_filter: list[str] = array(STRING, "5+")  # empty for all

"""FindCoordinator (key 10, versions 0 to 6): the broker that coordinates a group or a transactional id.

Version 1 knows transactions, 3 is flexible, 4 asks for many keys at once, 5 allows TRANSACTION_ABORTABLE, 6
share groups.

Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, INVALID_GROUP_ID,
GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import STRING, Request, Response, Struct, array, int8, int16, int32, string


class Coordinator(Struct):
    key: str = string("4+")  # group id or transactional id
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3")  # group id or transactional id
    key_type: int = int8("1+")  # 0 group, 1 transaction
    coordinator_keys: list[str] = array(STRING, "4+")

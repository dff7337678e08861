"""CreateAcls (key 30, versions 0 to 3): add access control entries; the numbers are those of DescribeAcls.

Version 1 brings prefixed patterns, 2 is flexible, 3 has users as resources.

Errors of an entry: SECURITY_DISABLED where the broker has no authorizer, INVALID_REQUEST,
CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class AclCreationResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class CreateAclsResponse(Response, key=30, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    results: list[AclCreationResult] = array(AclCreationResult, "0+")


class AclCreation(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsRequest(Request, key=30, versions="0-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation, "0+")

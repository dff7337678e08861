"""DeleteAcls (key 31, versions 0 to 3): remove the entries that match filters; the numbers are DescribeAcls'.

Version 1 brings prefixed patterns, 2 is flexible, 3 has users as resources.

Errors of a filter: SECURITY_DISABLED where the broker has no authorizer, INVALID_REQUEST,
CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsFilterResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")


class DeleteAclsResponse(Response, key=31, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")  # null for any
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")  # null for any
    host_filter: str | None = string("0+", nullable="0+")  # null for any
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsRequest(Request, key=31, versions="0-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")

"""DescribeAcls (key 29, versions 0 to 3): the access control entries that match a filter.

Version 1 brings prefixed patterns, 2 is flexible, 3 has users as resources.

Numbers of Kafka's `AclBinding` filters: resource types 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id,
6 delegation token, 7 user; pattern types 1 any, 2 match, 3 literal, 4 prefixed; operations 1 any, 2 all, 3 read,
4 write and so on; permissions 1 any, 2 deny, 3 allow.

Errors: SECURITY_DISABLED where the broker has no authorizer, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class AclDescription(Struct):
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+")


class DescribeAclsResponse(Response, key=29, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")


class DescribeAclsRequest(Request, key=29, versions="0-3", flexible="2+"):
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")  # null for any
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")  # null for any
    host_filter: str | None = string("0+", nullable="0+")  # null for any
    operation: int = int8("0+")
    permission_type: int = int8("0+")

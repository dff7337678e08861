"""DescribeClientQuotas (key 48, versions 0 and 1): the quotas of users, client ids and addresses (KIP-546).

Version 1 is flexible.

Errors: INVALID_REQUEST, UNSUPPORTED_VERSION for an entity type that is not known, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, float64, int8, int16, int32, string


class DescribeClientQuotasEntity(Struct):
    entity_type: str = string("0+")  # "user", "client-id" or "ip"
    entity_name: str | None = string("0+", nullable="0+")  # null is the default of the type


class DescribeClientQuotasValue(Struct):
    key: str = string("0+")  # such as "producer_byte_rate"
    value: float = float64("0+")


class DescribeClientQuotasEntry(Struct):
    entity: list[DescribeClientQuotasEntity] = array(DescribeClientQuotasEntity, "0+")
    values: list[DescribeClientQuotasValue] = array(DescribeClientQuotasValue, "0+")


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[DescribeClientQuotasEntry] | None = array(DescribeClientQuotasEntry, "0+", nullable="0+")


class DescribeClientQuotasComponent(Struct):
    entity_type: str = string("0+")
    match_type: int = int8("0+")  # 0 this name, 1 the default, 2 any name and the default
    match: str | None = string("0+", nullable="0+")  # the name, with match type 0 alone


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    components: list[DescribeClientQuotasComponent] = array(DescribeClientQuotasComponent, "0+")
    strict: bool = boolean("0+")  # leave out entities that have more types than the components name

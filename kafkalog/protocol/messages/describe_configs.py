"""DescribeConfigs (key 32, versions 0 to 4): configurations of topics and brokers, and where they come from.

Version 1 tells sources and synonyms, 3 types and documentation, 4 is flexible.

Errors of a resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST,
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import STRING, Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsSynonym(Struct):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")  # as config_source


class DescribeConfigsResourceResult(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")  # null where sensitive or unset
    read_only: bool = boolean("0+")
    is_default: bool = boolean("0")  # before config_source came
    # 1 topic, 2 broker, 3 all brokers, 4 static, 5 default, 6 logger; 0 unknown
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+")  # a secret, whose value is never told
    # where the value would come from next, the effective one first
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    # 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")  # 2 topic, 4 broker, 8 broker logger, 16 client metrics
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Response, key=32, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")


class DescribeConfigsResource(Struct):
    resource_type: int = int8("0+")  # 2 topic, 4 broker, 8 broker logger, 16 client metrics
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array(STRING, "0+", nullable="0+")  # null for all


class DescribeConfigsRequest(Request, key=32, versions="0-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")

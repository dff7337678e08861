"""IncrementalAlterConfigs (key 44, versions 0 and 1): change single configurations of a resource.

Version 1 is flexible.

Errors of a resource: INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION,
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")  # 2 topic, 4 broker, 8 broker logger, 16 client metrics
    resource_name: str = string("0+")


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")


class AlterableConfig(Struct):
    name: str = string("0+")
    config_operation: int = int8("0+")  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None = string("0+", nullable="0+")  # null to unset


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+")  # 2 topic, 4 broker, 8 broker logger, 16 client metrics
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


class IncrementalAlterConfigsRequest(Request, key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")  # check, and change nothing

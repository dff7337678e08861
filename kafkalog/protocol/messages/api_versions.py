"""ApiVersions (key 18, versions 0 to 4): which APIs the broker serves, in which versions.

Version 3 is flexible and names the client's software (KIP-511); 4 lists features whose lowest version is 0.
The response's header is that of version 0 always, and the answer to a version that the broker does not know
is in version 0, with UNSUPPORTED_VERSION and the list.

Errors: UNSUPPORTED_VERSION, INVALID_REQUEST for a software name that is none.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string

STATED_OFFSETS = "kafkalog.stated.offsets"
"""The feature of brokers of kafkalog that take `expected_end_offset` of Produce: others would append the records, too.

It has version 1. Apache Kafka's brokers do not announce it, nor do brokers of kafkalog from before."""


class ApiVersion(Struct):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, ignorable=True)
    # -1 where the cluster finalizes no features
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)  # told by a KRaft controller alone


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+", ignorable=True)  # letters, digits, . and -; INVALID_REQUEST
    client_software_version: str = string("3+", ignorable=True)  # the same rule

"""DescribeUserScramCredentials (key 50, version 0): which SCRAM credentials users have, without them (KIP-554).

All versions are flexible.

Errors: RESOURCE_NOT_FOUND and DUPLICATE_RESOURCE of a user, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class CredentialInfo(Struct):
    mechanism: int = int8("0+")  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")


class UserName(Struct):
    name: str = string("0+")


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = array(UserName, "0+", nullable="0+")  # null or empty for all

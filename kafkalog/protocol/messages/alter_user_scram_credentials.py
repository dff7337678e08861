"""AlterUserScramCredentials (key 51, version 0): set and delete SCRAM credentials of users (KIP-554).

The client sends the salted password, from which the broker derives the keys that it stores. All versions are flexible.

Errors: UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE and UNACCEPTABLE_CREDENTIAL of a user,
NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, bytes_, int8, int16, int32, string


class AlterUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")


class ScramCredentialDeletion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


class ScramCredentialUpsertion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")  # 4096 to 16384
    salt: bytes = bytes_("0+")
    salted_password: bytes = bytes_("0+")


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")

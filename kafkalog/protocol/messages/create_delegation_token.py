"""CreateDelegationToken (key 38, versions 0 to 3): make a token that clients can log in with by SCRAM (KIP-48).

Version 2 is flexible, 3 makes tokens of another owner (KIP-373).

Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED,
INVALID_PRINCIPAL_TYPE.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, bytes_, int16, int32, int64, string


class CreateDelegationTokenResponse(Response, key=38, versions="0-3", flexible="2+"):
    error_code: int = int16("0+")
    principal_type: str = string("0+")  # of the owner
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")  # no renewal lasts longer
    token_id: str = string("0+")
    hmac: bytes = bytes_("0+")  # in Base64 it is the password
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota


class CreatableRenewers(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class CreateDelegationTokenRequest(Request, key=38, versions="0-3", flexible="2+"):
    owner_principal_type: str | None = string("3+", nullable="3+")  # null for the user that sends the request
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+")  # the owner may always renew it
    max_lifetime_ms: int = int64("0+")  # -1 for the broker's own limit

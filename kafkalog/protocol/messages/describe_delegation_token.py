"""DescribeDelegationToken (key 41, versions 0 to 3): list the delegation tokens that the client may see (KIP-48).

Version 2 is flexible, 3 names who asked for each token (KIP-373).

Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, bytes_, int16, int32, int64, string


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribedDelegationToken(Struct):
    principal_type: str = string("0+")  # of the owner
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")  # no renewal lasts longer
    token_id: str = string("0+")
    hmac: bytes = bytes_("0+")  # in Base64 it is the password
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Response, key=41, versions="0-3", flexible="2+"):
    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribeDelegationTokenRequest(Request, key=41, versions="0-3", flexible="2+"):
    # null for all tokens that the client may see
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, "0+", nullable="0+")

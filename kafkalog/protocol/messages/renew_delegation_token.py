"""RenewDelegationToken (key 39, versions 0 to 2): let a delegation token last longer (KIP-48).

Version 2 is flexible.

Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_NOT_FOUND,
DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, bytes_, int16, int32, int64


class RenewDelegationTokenResponse(Response, key=39, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota


class RenewDelegationTokenRequest(Request, key=39, versions="0-2", flexible="2+"):
    hmac: bytes = bytes_("0+")  # names the token
    renew_period_ms: int = int64("0+")  # -1 for the broker's own

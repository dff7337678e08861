"""SaslAuthenticate (key 36, versions 0 to 2): one step of the SASL exchange that SaslHandshake began.

Version 1 limits the session's life (KIP-368), 2 is flexible.

Errors: SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, bytes_, int16, int64, string


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")  # SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = bytes_("0+")  # the mechanism's own
    # until the client must authenticate again; 0 for never
    session_lifetime_ms: int = int64("1+", ignorable=True)


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytes_("0+")  # the mechanism's own

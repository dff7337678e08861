"""SaslHandshake (key 17, versions 0 and 1): choose a SASL mechanism.

After version 0 the mechanism's bytes follow bare, each with an int32 length; after version 1 in
SaslAuthenticate. No version is flexible.

Errors: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kafkalog.protocol.schema import STRING, Request, Response, array, int16, string


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int = int16("0+")  # UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE
    mechanisms: list[str] = array(STRING, "0+")  # what the broker offers


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = string("0+")

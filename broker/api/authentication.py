"""SaslHandshake (key 17) and SaslAuthenticate (key 36) where nothing is to be authenticated.

They are announced on all listeners, as with Kafka. An authentication, and the renewal of a session, are in front of the
dispatcher (`broker.net.authentication`). What gets here comes at the wrong time, or on a listener without SASL.
"""

from __future__ import annotations

from broker.api.context import Request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle_sasl_handshake(request: Request) -> None:
    request.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))


def handle_sasl_authenticate(request: Request) -> None:
    request.reply(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )


HANDLERS = {SaslHandshakeRequest: handle_sasl_handshake, SaslAuthenticateRequest: handle_sasl_authenticate}

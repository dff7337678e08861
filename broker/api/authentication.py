"""SaslHandshake (key 17) and SaslAuthenticate (key 36) where nothing is to be authenticated, and answers before that.

Both APIs are announced on all listeners, as with Kafka. An authentication, and the renewal of a session, are in front
of the dispatcher (`broker.net.authentication`). What gets here comes at the wrong time, or on a listener without SASL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from broker.api.context import Request, encoded
from broker.api.errors import make_encodable
from broker.api.versions import answer_versions
from broker.net.session import Session
from kafkalog.protocol.codec import RequestHeader
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
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


class UnauthenticatedAnswers:
    """Answers requests of a client that is not authenticated.

    Args:
        session: the client.
        between: the listeners on which APIs between brokers are served.
    """

    __slots__ = ("_between", "_session")

    def __init__(self, session: Session, between: frozenset[str]) -> None:
        self._session = session
        self._between = between

    def versions(self, message: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Return the response to an ApiVersions request."""
        return answer_versions(self._session, self._between, message, version)

    def illegal_state(self, header: RequestHeader) -> Sequence[bytes]:
        """Return the response ILLEGAL_SASL_STATE; nothing if the API has no error of the whole response."""
        response_type = _response_types().get(header.api_key)
        field = next((each for each in getattr(response_type, "fields", ()) if each.name == "error_code"), None)
        if response_type is None or field is None or header.api_version not in field.versions:
            return ()
        response = response_type(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        make_encodable(response, header.api_version)
        return cast(list[bytes], encoded(response, header.api_version, header.correlation_id))


@cache
def _response_types() -> dict[int, Any]:
    """Return the classes of responses by API key: the registry imports this module."""
    from broker.api.registry import served_apis

    return {key: api.request_type.response_type for key, api in served_apis().items() if not api.members_only}


HANDLERS = {SaslHandshakeRequest: handle_sasl_handshake, SaslAuthenticateRequest: handle_sasl_authenticate}

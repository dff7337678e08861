"""ApiVersions (key 18, versions 0 to 4): the served APIs. Requests of newer versions get version 0 and the list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from broker.api.context import Request, encoded
from broker.net.connection import Connection
from broker.net.session import Session
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import (
    STATED_OFFSETS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from broker.api.registry import Api

_SOFTWARE = re.compile("[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""Names and versions of client software (KIP-511): letters and digits of ASCII, with '.' and '-' inside."""

_FEATURES = (SupportedFeatureKey(name=STATED_OFFSETS, min_version=1, max_version=1),)


def announced(apis: Mapping[int, Api], *, between: bool) -> list[ApiVersion]:
    """Return the served APIs in the response's form, `between` brokers or to clients."""
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in apis.values()
        if between or not api.members_only
    ]


@cache
def _served(*, between: bool) -> tuple[ApiVersion, ...]:
    """Return the versions that this release serves, computed once: the registry imports this module."""
    from broker.api.registry import served_apis

    return tuple(announced(served_apis(), between=between))


def handle_api_versions(request: Request) -> None:
    member = request.broker.member
    between: frozenset[str] = frozenset() if member is None else member.listeners
    request.reply(answer_versions(request.connection.session, between, request.message, request.version))


def answer_versions(
    session: Session, between: frozenset[str], message: ApiVersionsRequest, version: int
) -> ApiVersionsResponse:
    """Return the response to an ApiVersions request, and note the client's software in its session.

    Args:
        session: the client, which may not be authenticated yet.
        between: the listeners on which APIs between brokers are served.
        message: the request.
        version: its version.
    """
    if version >= 3:
        if not (_legal(message.client_software_name) and _legal(message.client_software_version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        session.client_software_name = message.client_software_name
        session.client_software_version = message.client_software_version
    return ApiVersionsResponse(
        api_keys=list(_served(between=session.endpoint.name in between)),
        supported_features=list(_FEATURES),
        # None of them can be finalized (KIP-584).
        finalized_features_epoch=-1,
    )


def reply_unsupported(
    connection: Connection, correlation_id: int, apis: Mapping[int, Api], between: frozenset[str]
) -> None:
    """Answer an ApiVersions request of an unknown version in version 0, so that the client can try again.

    Args:
        between: the listeners on which APIs between brokers are served.
    """
    keys = announced(apis, between=connection.endpoint.name in between)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
    connection.reply(encoded(response, 0, correlation_id))


def _legal(text: str) -> bool:
    return _SOFTWARE.fullmatch(text) is not None


HANDLERS = {ApiVersionsRequest: handle_api_versions}

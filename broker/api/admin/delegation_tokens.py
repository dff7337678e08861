"""Delegation tokens: Create (key 38), Renew (39), Expire (40) and Describe (41)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.api.context import Request
from broker.api.errors import error_code
from broker.controller.security.delegation_tokens import DelegationTokens
from broker.net.session import ANONYMOUS, USER_TYPE
from broker.security.tokens import Token
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkalog.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkalog.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkalog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

REQUESTER_SINCE = 3
"""Versions whose responses name who asked for a token (KIP-373)."""


def _fault(request: Request) -> ErrorCode | None:
    """Return why requests about tokens are refused on the connection, or here; None if they are not.

    Who has authenticated by a token must not prolong his access by another one.
    """
    if not _is_allowed(request):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if request.broker.tokens is None else None


def _is_allowed(request: Request) -> bool:
    session = request.connection.session
    protocol = session.endpoint.protocol
    is_anonymous = protocol == "PLAINTEXT" or (protocol == "SSL" and session.principal == ANONYMOUS)
    return not is_anonymous and not session.is_of_token


def _tokens(request: Request) -> DelegationTokens:
    assert request.broker.tokens is not None
    return request.broker.tokens


async def handle_create_delegation_token(request: Request) -> None:
    message: CreateDelegationTokenRequest = request.message
    requester = request.connection.session.principal
    owner = str(requester)
    if message.owner_principal_name:
        owner = f"{message.owner_principal_type or USER_TYPE}:{message.owner_principal_name}"
    kind, _, name = owner.partition(":")
    renewers: dict[str, None] = {}
    fault: ErrorCode | None = None
    if not _is_allowed(request):
        fault = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != str(requester) and not request.allows(AclOperation.CREATE_TOKENS, AclResourceType.USER, owner):
        fault = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif kind != USER_TYPE or not await _find_renewers(request, renewers):
        fault = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif request.broker.tokens is None:
        fault = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    response = CreateDelegationTokenResponse(
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if request.version >= REQUESTER_SINCE:
        response.token_requester_principal_type = requester.principal_type
        response.token_requester_principal_name = requester.name
    if fault is not None:
        response.error_code = fault
        request.reply(response)
        return
    tokens = _tokens(request)
    try:
        token = await tokens.create(owner, str(requester), renewers, message.max_lifetime_ms)
    except KafkaError as error:
        response.error_code = error_code(error)
    else:
        response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
        response.max_timestamp_ms, response.token_id, response.hmac = token.max_ms, token.token_id, tokens.hmac(token)
    await request.answer(response, renewers)


async def _find_renewers(request: Request, renewers: dict[str, None]) -> bool:
    """Put the renewers of a new token into `renewers`, each once; return False if one of them is no user."""
    async for each in request.each(request.message.renewers):
        if each.principal_type != USER_TYPE or not each.principal_name:
            return False
        renewers[f"{each.principal_type}:{each.principal_name}"] = None
    return True


async def handle_renew_delegation_token(request: Request) -> None:
    message: RenewDelegationTokenRequest = request.message
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=-1)
    await _change_end(request, response, DelegationTokens.renew, message.hmac, message.renew_period_ms)


async def handle_expire_delegation_token(request: Request) -> None:
    message: ExpireDelegationTokenRequest = request.message
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=-1)
    await _change_end(request, response, DelegationTokens.expire, message.hmac, message.expiry_time_period_ms)


async def _change_end(
    request: Request,
    response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse,
    change: Callable[[DelegationTokens, str, bytes, int], Awaitable[int]],
    hmac: bytes,
    period_ms: int,
) -> None:
    """Change the end of a token, and answer when it ends now, or why it was not changed."""
    fault = _fault(request)
    if fault is not None:
        response.error_code = fault
    else:
        principal = str(request.connection.session.principal)
        try:
            response.expiry_timestamp_ms = await change(_tokens(request), principal, hmac, period_ms)
        except KafkaError as error:
            response.error_code = error_code(error)
    request.reply(response)


async def handle_describe_delegation_token(request: Request) -> None:
    message: DescribeDelegationTokenRequest = request.message
    fault = _fault(request)
    if fault is not None:
        request.refuse(fault)
        return
    tokens = _tokens(request)
    owners = None
    if message.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" async for each in request.each(message.owners)}
    found = [
        _described(token, tokens.hmac(token), request.version)
        async for token in request.each(tokens.all())
        if (owners is None or not owners.isdisjoint(token.concerned)) and _may_see(request, token)
    ]
    await request.answer(DescribeDelegationTokenResponse(tokens=found), owners)


def _may_see(request: Request, token: Token) -> bool:
    return (
        str(request.connection.session.principal) in token.concerned
        or request.allows(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id, tells_denied=False)
        or request.allows(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)
    )


def _described(token: Token, hmac: bytes, version: int) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(
                principal_type=each.partition(":")[0], principal_name=each.partition(":")[2]
            )
            for each in token.renewers
        ],
    )
    if version >= REQUESTER_SINCE:
        requester_kind, _, requester = token.requester.partition(":")
        described.token_requester_principal_type = requester_kind
        described.token_requester_principal_name = requester
    return described


HANDLERS = {
    CreateDelegationTokenRequest: handle_create_delegation_token,
    RenewDelegationTokenRequest: handle_renew_delegation_token,
    ExpireDelegationTokenRequest: handle_expire_delegation_token,
    DescribeDelegationTokenRequest: handle_describe_delegation_token,
}

"""Test the requests about delegation tokens: who sees which token, and many renewers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api import large
from broker.api.admin import delegation_tokens
from broker.config.listeners import Endpoint
from broker.net.session import Session
from broker.security.authorizer.authorizer import Authorizer
from broker.security.authorizer.model import AclEntry, ResourcePattern
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.codec import decode_response, encode_response
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkalog.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkalog.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkalog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.coordinator.support import Stored
from tests.broker.serving import Serving
from tests.support.in_process.asking import Client, request_of

ADMIN_MAKES_TOKENS_OF_ANN = {
    ResourcePattern(AclResourceType.USER, AclPatternType.LITERAL, "User:ann"): frozenset(
        {AclEntry("User:admin", "*", AclOperation.CREATE_TOKENS, AclPermission.ALLOW)}
    )
}


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Stored(tmp_path, {"delegation.token.secret.key": "of-all-tokens"}) as parts:
        serving = Serving(parts, delegation_tokens.HANDLERS)
        serving.broker.authorizer = Authorizer(frozenset(), allow_if_none=False, acls=ADMIN_MAKES_TOKENS_OF_ANN)
        yield serving
        assert serving.broker.tokens is not None
        serving.run(serving.broker.tokens.stop())


def client(user: str) -> Client:
    made: Any = Client()
    made.session = Session(Endpoint("S", "", 9093, "SASL_PLAINTEXT"), made.peer)
    made.session.authenticated(user, "SCRAM-SHA-256")
    return made  # type: ignore[no-any-return]


def creation(owner: str, *renewers: str) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type="User",
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type="User", principal_name=each) for each in renewers],
        max_lifetime_ms=-1,
    )


def create(serving: Serving, user: str, owner: str, *renewers: str) -> Any:
    return serving.run(serving.ask(creation(owner, *renewers), 3, client(user)))


def seen(serving: Serving, user: str, *owners: str) -> list[str]:
    """Return the ids of the tokens that a user sees, of some principals or of all."""
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
    response = serving.run(serving.ask(DescribeDelegationTokenRequest(owners=named or None), 3, client(user)))
    assert response.error_code == ErrorCode.NONE
    return [token.token_id for token in response.tokens]


def test_a_token_is_seen_by_its_owner_its_requester_and_its_renewers(serving: Serving) -> None:
    made = create(serving, "admin", "ann", "yarn")
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "ann", "admin")
    for user in ("ann", "admin", "yarn"):
        assert seen(serving, user) == [made.token_id]
    assert seen(serving, "bob") == []


def test_tokens_are_asked_for_by_the_names_of_all_whom_they_concern(serving: Serving) -> None:
    """As with Apache Kafka, whose request calls all of them owners."""
    first, second = create(serving, "admin", "ann", "yarn"), create(serving, "bob", "bob", "ann")
    assert seen(serving, "ann", "bob") == [second.token_id]
    for name in ("yarn", "admin"):
        assert seen(serving, "ann", name) == [first.token_id]
    assert seen(serving, "ann", "ann", "carol") == [first.token_id, second.token_id]
    assert seen(serving, "ann", "carol") == []


@pytest.mark.parametrize("version", range(4))
def test_every_version(serving: Serving, version: int) -> None:
    """Clients before Kafka 3.3 do not know the fields of version 3."""

    def ask(message: Any) -> Any:
        response = serving.run(serving.ask(message, version, client("ann")))
        _, read = decode_response(type(message), version, b"".join(encode_response(response, version, 1))[4:])  # type: ignore[arg-type]
        assert read.error_code == ErrorCode.NONE
        return read

    request = creation("ann", "yarn")
    if version < 3:
        request.owner_principal_type = request.owner_principal_name = None
    made = ask(request)
    (token,) = ask(DescribeDelegationTokenRequest(owners=None)).tokens
    for told in (made, token):
        assert (told.principal_name, told.hmac) == ("ann", made.hmac)
        assert told.token_requester_principal_name == ("ann" if version >= 3 else "")
    within = min(version, 2)
    for change in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
        changed = serving.run(serving.ask(change(hmac=made.hmac), within, client("ann")))
        assert changed.error_code == ErrorCode.NONE
        assert encode_response(changed, within, 1)


def test_a_turn_ends_with_each_renewer(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    names = [f"user-{number}" for number in range(60)]

    async def work() -> None:
        request = request_of(serving.broker, creation("ann", *names), 3, client("ann"))
        await delegation_tokens.handle_create_delegation_token(request)
        assert request.response.error_code == ErrorCode.NONE
        assert request.turn is not None
        assert request.turn.ended >= len(names)

    serving.run(work())


def test_a_token_with_too_many_renewers_is_refused(serving: Serving) -> None:
    names = [f"user-{number}" for number in range(10_001)]
    assert create(serving, "ann", "ann", *names).error_code == ErrorCode.POLICY_VIOLATION
    assert create(serving, "ann", "ann", *names[1:], *names[1:]).error_code == ErrorCode.NONE
    assert create(serving, "ann", "ann", *names, "").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE

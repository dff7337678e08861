"""Tests of `kafkalog delegation-tokens` with a scripted broker; Apache Kafka's are in `client/security`."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

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
from tests.support.command import Ended, call
from tests.support.scripted import ScriptedBroker

HMAC = b"\x01\xfe of the token"
PASSWORD = b64encode(HMAC).decode()
ISSUED, EXPIRES, MAX = 1_700_000_000_000, 1_700_086_400_000, 1_700_604_800_000


class Broker(ScriptedBroker):
    """Has one token; `asked` has the requests about it, and `error_code` answers them."""

    def __init__(self) -> None:
        super().__init__(
            {
                CreateDelegationTokenRequest: self._create,
                DescribeDelegationTokenRequest: self._describe,
                RenewDelegationTokenRequest: self._renew,
                ExpireDelegationTokenRequest: self._expire,
            }
        )
        self.asked: list[Any] = []
        self.error_code = 0

    def _create(self, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
        self.asked.append(request)
        return CreateDelegationTokenResponse(
            error_code=self.error_code,
            principal_type="User",
            principal_name="alice",
            token_requester_principal_type="User",
            token_requester_principal_name="admin",
            issue_timestamp_ms=ISSUED,
            expiry_timestamp_ms=EXPIRES,
            max_timestamp_ms=MAX,
            token_id="id-1",
            hmac=HMAC,
        )

    def _describe(self, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
        self.asked.append(request)
        token = DescribedDelegationToken(
            principal_type="User",
            principal_name="alice",
            token_requester_principal_type="User",
            token_requester_principal_name="admin",
            issue_timestamp=ISSUED,
            expiry_timestamp=EXPIRES,
            max_timestamp=MAX,
            token_id="id-1",
            hmac=HMAC,
            renewers=[DescribedDelegationTokenRenewer(principal_type="User", principal_name="bob")],
        )
        return DescribeDelegationTokenResponse(error_code=self.error_code, tokens=[token])

    def _renew(self, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
        self.asked.append(request)
        return RenewDelegationTokenResponse(error_code=self.error_code, expiry_timestamp_ms=EXPIRES)

    def _expire(self, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
        self.asked.append(request)
        return ExpireDelegationTokenResponse(error_code=self.error_code, expiry_timestamp_ms=ISSUED)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def tool(broker: Broker, action: str, *words: str, check: int = 0) -> Ended:
    return call("delegation-tokens", action, "--bootstrap-server", broker.address, *words, check=check)


def test_a_token_is_created(broker: Broker) -> None:
    words = ("--owner-principal", "User:alice", "--renewer-principal", "User:bob", "--max-life-time-period", "60000")
    (line,) = tool(broker, "create", *words, "--json").out
    assert json.loads(line) == {
        "tokenId": "id-1",
        "owner": "User:alice",
        "requester": "User:admin",
        "renewers": ["User:bob"],
        "issuedAt": ISSUED,
        "expiresAt": EXPIRES,
        "maxTimestamp": MAX,
        "hmac": PASSWORD,
        "jaas": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="id-1" password="{PASSWORD}" tokenauth="true";',
    }
    (request,) = broker.asked
    assert (request.owner_principal_type, request.owner_principal_name) == ("User", "alice")
    assert [(each.principal_type, each.principal_name) for each in request.renewers] == [("User", "bob")]
    assert request.max_lifetime_ms == 60000
    lines = tool(broker, "create").out
    assert lines[0] == "TokenId: id-1"
    assert lines[-1] == f"HMAC: {PASSWORD}"
    assert (broker.asked[1].owner_principal_name, broker.asked[1].max_lifetime_ms) == (None, -1)


def test_tokens_are_described_without_their_secrets(broker: Broker) -> None:
    heads, row = tool(broker, "describe", "--owner-principal", "User:alice").out
    assert heads.split() == ["TokenId", "Owner", "Requester", "Renewers", "IssueDate", "ExpiryDate", "MaxDate"]
    dates = ["2023-11-14T22:13:20+00:00", "2023-11-15T22:13:20+00:00", "2023-11-21T22:13:20+00:00"]
    assert row.split() == ["id-1", "User:alice", "User:admin", "User:bob", *dates]
    (line,) = tool(broker, "describe", "--json").out
    assert PASSWORD not in row + line
    assert [owner.principal_name for owner in broker.asked[0].owners] == ["alice"]
    assert broker.asked[1].owners is None


def test_a_token_is_renewed_and_expired(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool(broker, "renew", "--hmac", PASSWORD, "--renew-time-period", "5").out == [
        "The token expires at 2023-11-15T22:13:20+00:00."
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    assert tool(broker, "expire", "--hmac", "-").out == ["The token expires at 2023-11-14T22:13:20+00:00."]
    assert [bytes(request.hmac) for request in broker.asked] == [HMAC, HMAC]
    assert (broker.asked[0].renew_period_ms, broker.asked[1].expiry_time_period_ms) == (5, -1)


@pytest.mark.parametrize(
    ("action", "words"),
    [("create", ()), ("describe", ()), ("renew", ("--hmac", PASSWORD)), ("expire", ("--hmac", PASSWORD))],
)
def test_the_brokers_reason_is_told(broker: Broker, action: str, words: tuple[str, ...]) -> None:
    broker.error_code = 61
    ended = tool(broker, action, *words, check=1)
    assert ended.out == []
    (line,) = ended.err.splitlines()
    assert "Delegation tokens are switched off." in line
    assert PASSWORD not in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create", "--owner-principal", "alice"), "--owner-principal: 'alice' is no principal; expected TYPE:NAME"),
        (("create", *["--owner-principal", "User:a"] * 2), "a token has one owner"),
        (("describe", "--owner-principal", ":a"), "expected TYPE:NAME"),
        (("renew", "--hmac", "no base64!"), "--hmac: expected the HMAC in Base64"),
        (("expire", "--hmac", ""), "--hmac: expected the HMAC in Base64"),
    ],
)
def test_words_that_cannot_be_used(broker: Broker, words: tuple[str, ...], told: str) -> None:
    ended = tool(broker, *words, check=2)
    assert told in ended.err
    assert broker.asked == []

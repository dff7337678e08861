"""Test the server's side of OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.mechanisms.interface import Identity, SaslError, SaslRefusalError
from broker.security.sasl.mechanisms.oauthbearer import OAuthBearerServer
from broker.security.sasl.oauth.jwt import TokenError, ValidToken
from kafkalog.protocol.wire.oauthbearer import OAuthBearer


def check(token: str) -> ValidToken:
    match token:
        case "good":
            return ValidToken("alice", 9000)
        case "narrow":
            raise TokenError("it lacks a scope", "insufficient_scope", "write")
        case _:
            raise TokenError("its clock is wrong")


def server() -> OAuthBearerServer:
    return OAuthBearerServer(check)


def test_our_own_client() -> None:
    ours, theirs = server(), OAuthBearer("good", "x", {"traceId": "7"})
    answer = ours.answer(theirs.first())
    assert theirs.answer(answer) is None
    assert ours.identity == Identity("alice", 9000)


@pytest.mark.parametrize(
    ("token", "told"),
    [("bad", {"status": "invalid_token"}), ("narrow", {"status": "insufficient_scope", "scope": "write"})],
)
def test_a_token_that_is_not_accepted(token: str, told: dict[str, str]) -> None:
    ours, theirs = server(), OAuthBearer(token, "x")
    answer = ours.answer(theirs.first())
    assert json.loads(answer) == told
    assert ours.identity is None
    last = theirs.answer(answer)
    assert last == b"\x01"
    with pytest.raises(SaslRefusalError) as caught:
        ours.answer(last)
    assert json.loads(str(caught.value)) == told
    assert caught.value.reason in ("it lacks a scope", "its clock is wrong")


def test_a_client_that_goes_on() -> None:
    ours = server()
    ours.answer(OAuthBearer("bad", "x").first())
    with pytest.raises(SaslError, match="goes on"):
        ours.answer(OAuthBearer("good", "x").first())
    assert ours.identity is None


def test_the_authorization_id() -> None:
    ours = server()
    ours.answer(b"n,a=alice,\x01auth=bEARER   good\x01\x01")
    assert ours.identity == Identity("alice", 9000)
    ours = server()
    with pytest.raises(SaslRefusalError, match="different"):
        ours.answer(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert ours.identity is None


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\x01", b"n,,", b"n,,\x01\x01", b"y,,\x01auth=Bearer good\x01\x01", b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Basic good\x01\x01", b"n,,\x01auth=Bearer\x01\x01", b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01", b"n,,\x01other=x\x01\x01",
        b"n,,\x01auth=Bearer good\x01a1=x\x01\x01", b"n,,\x01auth=Bearer good\xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 70_000 + b"\x01\x01",
    ],
)  # fmt: skip
def test_a_message_that_is_wrong(message: bytes) -> None:
    ours = server()
    with pytest.raises(SaslError, match="Invalid OAUTHBEARER client first message"):
        ours.answer(message)
    assert ours.identity is None


@given(st.lists(st.binary() | st.just(b"\x01") | st.just(b"n,,\x01auth=Bearer bad\x01\x01"), max_size=3))
def test_any_bytes_are_refused(messages: list[bytes]) -> None:
    ours = server()
    for message in messages:
        try:
            ours.answer(message)
        except SaslError:
            break
    assert ours.identity is None

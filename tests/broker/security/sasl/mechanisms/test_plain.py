"""Test the server's side of PLAIN (RFC 4616)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.mechanisms.interface import Identity, SaslError, SaslRefusalError
from broker.security.sasl.mechanisms.plain import PlainAccounts, PlainServer
from kafkalog.protocol.wire.sasl import Plain

ACCOUNTS = PlainAccounts({"alice": "a-secret", "bob": "b-secret", "tim": "tanstaaftanstaaf"})


def answer(message: bytes) -> PlainServer:
    server = PlainServer(ACCOUNTS)
    assert server.answer(message) == b""
    return server


def failure(message: bytes) -> SaslError:
    server = PlainServer(ACCOUNTS)
    with pytest.raises(SaslError) as caught:
        server.answer(message)
    assert server.identity is None
    assert "secret" not in str(caught.value)
    return caught.value


def test_the_example_of_rfc_4616_and_our_own_client() -> None:
    assert answer(b"\0tim\0tanstaaftanstaaf").identity == Identity("tim")
    assert answer(Plain("alice", "a-secret").first()).identity == Identity("alice")


def test_an_authorization_id_has_to_be_the_user() -> None:
    assert answer(b"alice\0alice\0a-secret").identity == Identity("alice")
    # CVE-2017-12610
    assert isinstance(failure(b"bob\0alice\0a-secret"), SaslRefusalError)


@pytest.mark.parametrize(
    "message", [b"\0alice\0b-secret", b"\0carol\0a-secret", b"\0carol\0no account has this password"]
)
def test_an_unknown_user_is_told_what_a_wrong_password_is(message: bytes) -> None:
    error = failure(message)
    assert isinstance(error, SaslRefusalError)
    assert str(error) == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0a-secret", "expected 3 tokens, got 2"),
        (b"\0alice\0a-secret\0", "expected 3 tokens, got 4"),
        (b"\0\0a-secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0\xff", "not in UTF-8"),
    ],
)
def test_a_wrong_message_is_for_the_log_only(message: bytes, reason: str) -> None:
    error = failure(message)
    assert reason in str(error)
    assert not isinstance(error, SaslRefusalError)


@given(st.binary())
def test_any_bytes_are_refused(message: bytes) -> None:
    failure(message)


def test_nothing_shows_passwords() -> None:
    assert repr(ACCOUNTS) == "PlainAccounts(3 users)"
    assert "secret" not in repr(PlainServer(ACCOUNTS))

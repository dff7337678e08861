"""Test the mechanism OAUTHBEARER with the example of RFC 7628, and its refusals."""

from __future__ import annotations

import pytest

from kafkalog.protocol.wire.errors import AuthenticationFailedError
from kafkalog.protocol.wire.oauthbearer import OAuthBearer, check_extensions

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="


def test_the_first_message_is_that_of_rfc_7628() -> None:
    mechanism = OAuthBearer(TOKEN, "the token", {"host": "server.example.com", "port": "143"})
    assert (
        mechanism.first()
        == b"n,,\x01auth=Bearer " + TOKEN.encode() + b"\x01host=server.example.com\x01port=143\x01\x01"
    )
    assert mechanism.answer(b"") is None


def test_a_refusal_is_acknowledged_and_reported() -> None:
    refusals = []
    mechanism = OAuthBearer(TOKEN, "the token", refused=lambda: refusals.append(True))
    mechanism.first()
    assert mechanism.answer(b'{"status":"invalid_token"}') == b"\x01"
    assert refusals == [True]
    with pytest.raises(AuthenticationFailedError, match="goes on"):
        mechanism.answer(b"")


@pytest.mark.parametrize("token", ["", "with space", "line\nbreak", "=", "ü", "a\x01b"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(ValueError, match="characters") as caught:
        OAuthBearer(token, "the token")
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01auth=y"}])
def test_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        check_extensions(extensions)


def test_the_token_is_not_shown() -> None:
    mechanism = OAuthBearer(TOKEN, "the token of 'alice'")
    assert TOKEN not in repr(mechanism) + mechanism.identity + mechanism.remedy

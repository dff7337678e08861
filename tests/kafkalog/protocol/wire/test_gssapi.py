"""Tests of GSSAPI's messages (RFC 4752) with a context that needs no Kerberos."""

from __future__ import annotations

import pytest

from kafkalog.protocol.wire.errors import AuthenticationFailedError
from kafkalog.protocol.wire.gssapi import Gssapi


class Rounds:
    """A context that wants some tokens of the server, and signs by a prefix."""

    def __init__(self, count: int, last: bytes = b"") -> None:
        self._left = count
        self._last = last

    @property
    def is_complete(self) -> bool:
        return self._left == 0

    def step(self, token: bytes) -> bytes:
        self._left -= 1
        return self._last if self.is_complete else b"more-" + token

    def wrap(self, message: bytes) -> bytes:
        return b"signed:" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"signed:"):
            raise AuthenticationFailedError("GSSAPI: the signature is wrong")
        return message.removeprefix(b"signed:")


def mechanism(context: Rounds) -> Gssapi:
    return Gssapi(context, b"first", "alice@EXAMPLE.COM", "kafka/host")


@pytest.mark.parametrize("last", [b"", b"last"])
def test_the_rounds(last: bytes) -> None:
    """The client's last token may come from it or not; an empty message takes its place."""
    gssapi = mechanism(Rounds(2, last))
    assert gssapi.first() == b"first"
    assert gssapi.answer(b"token") == b"more-token"
    assert gssapi.answer(b"another") == last
    assert gssapi.answer(b"signed:\x07\x00\xff\xff") == b"signed:\x01\x00\x00\x00alice@EXAMPLE.COM"
    assert gssapi.answer(b"") is None


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x06\x00\x10\x00", b"\x01\x00\x00\x00\x00"])
def test_a_broker_that_wants_a_security_layer(offer: bytes) -> None:
    gssapi = mechanism(Rounds(1))
    gssapi.answer(b"token")
    with pytest.raises(AuthenticationFailedError, match="wants a security layer"):
        gssapi.answer(b"signed:" + offer)


def test_an_offer_that_is_not_signed() -> None:
    gssapi = mechanism(Rounds(1))
    gssapi.answer(b"token")
    with pytest.raises(AuthenticationFailedError, match="signature"):
        gssapi.answer(b"\x01\x00\x00\x00")


def test_what_messages_name() -> None:
    gssapi = mechanism(Rounds(1))
    assert gssapi.identity == "principal 'alice@EXAMPLE.COM'"
    assert "kafka/host" in gssapi.remedy
    assert "sasl.kerberos.service.name" in gssapi.remedy

"""Test the exchange of GSSAPI (RFC 4752) without a library: its steps, and clients that lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.kerberos.names import NameRules
from broker.security.sasl.mechanisms.gssapi import GssapiServer
from broker.security.sasl.mechanisms.interface import Identity, SaslError
from kafkalog.protocol.wire.gssapi import Gssapi


class Context:
    """A security context whose tokens are words, and whose signatures are `<…>`; both sides are alike."""

    client = "alice@REALM"

    def __init__(self, *answers: tuple[bytes, bytes | None]) -> None:
        self._answers = list(answers)

    @property
    def is_complete(self) -> bool:
        return not self._answers

    def step(self, token: bytes) -> bytes | None:
        expected, answer = self._answers.pop(0)
        if token != expected:
            raise SaslError("the ticket is not accepted")
        return answer

    def wrap(self, message: bytes) -> bytes:
        return b"<" + message + b">"

    def unwrap(self, message: bytes) -> bytes:
        if message[:1] != b"<" or message[-1:] != b">":
            raise SaslError("the signature is wrong")
        return message[1:-1]


class ClientContext(Context):
    def step(self, token: bytes) -> bytes:
        return super().step(token) or b""


def server(*answers: tuple[bytes, bytes | None]) -> GssapiServer:
    return GssapiServer(lambda: Context(*(answers or ((b"AP-REQ", b"AP-REP"),))), NameRules(["DEFAULT"], "REALM"))


def offered() -> GssapiServer:
    ours = server()
    assert ours.answer(b"AP-REQ") == b"AP-REP"
    assert ours.answer(b"") == b"<\x01\0\0\0>"
    return ours


def test_our_own_client() -> None:
    ours = server()
    theirs = Gssapi(ClientContext((b"AP-REP", None)), b"AP-REQ", "alice@REALM", "kafka/h@REALM")
    message: bytes | None = theirs.first()
    while message is not None:
        message = theirs.answer(ours.answer(message) or b"")
    assert ours.identity == Identity("alice")


def test_a_context_that_ends_with_the_clients_token() -> None:
    ours = server((b"one", b"two"), (b"three", None))
    assert ours.answer(b"one") == b"two"
    assert ours.answer(b"three") == b"<\x01\0\0\0>"
    assert ours.answer(b"<\x01\0\0\0>") is None
    assert ours.identity == Identity("alice")


@pytest.mark.parametrize("named", [b"", b"alice", b"alice@REALM"])
def test_the_name_that_a_client_acts_for(named: bytes) -> None:
    ours = offered()
    assert ours.answer(b"<\x01\0\0\0" + named + b">") is None
    assert ours.identity == Identity("alice")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"<\x01\0\0\0bob>", "somebody else"),
        (b"<\x01\0\0\0bob@REALM>", "somebody else"),
        (b"<\x01\0\0\0\xff>", "UTF-8"),
        (b"<\x02\0\0\0>", "security layer"),
        (b"<\x01\0\0>", "security layer"),
        (b"<>", "security layer"),
        (b"\x01\0\0\0", "signature"),
    ],
)
def test_a_last_message_that_is_wrong(message: bytes, reason: str) -> None:
    ours = offered()
    with pytest.raises(SaslError, match=reason):
        ours.answer(message)
    assert ours.identity is None


def test_steps_that_are_wrong() -> None:
    with pytest.raises(SaslError, match="ticket"):
        server().answer(b"forged")
    ours = server()
    ours.answer(b"AP-REQ")
    with pytest.raises(SaslError, match="an empty message"):
        ours.answer(b"<\x01\0\0\0>")
    with pytest.raises(SaslError, match="longer"):
        server().answer(b"x" * 70_000)


def test_a_principal_of_another_realm_is_nobody() -> None:
    ours = GssapiServer(lambda: Context((b"AP-REQ", b"AP-REP")), NameRules(["DEFAULT"], "ELSEWHERE"))
    ours.answer(b"AP-REQ")
    ours.answer(b"")
    with pytest.raises(SaslError, match="no rule"):
        ours.answer(b"<\x01\0\0\0>")


@given(st.lists(st.binary() | st.sampled_from([b"AP-REQ", b"", b"<\x01\0\0\0bob>"]), max_size=4))
def test_any_messages_without_the_signature_are_refused(messages: list[bytes]) -> None:
    ours = server()
    for message in messages:
        try:
            ours.answer(message)
        except SaslError:
            break
    assert ours.identity is None

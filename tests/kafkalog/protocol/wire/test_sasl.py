"""Test SASL mechanisms with the examples of their RFCs, and with a server written from these."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.protocol.wire.errors import AuthenticationFailedError
from kafkalog.protocol.wire.sasl import Plain, SaltedPasswords, Scram, make_mechanism
from tests.kafkalog.protocol.wire.support import ScramServer


def test_plain_is_rfc_4616() -> None:
    plain = make_mechanism("PLAIN", "tim", "tanstaaftanstaaf")
    assert plain.first() == b"\0tim\0tanstaaftanstaaf"
    assert plain.answer(b"") is None


def test_scram_sha_256_is_the_example_of_rfc_7677() -> None:
    scram = Scram("SHA-256", "user", "pencil", make_nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert scram.answer(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()) == (
        f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert scram.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_delegation_token_names_itself_in_the_first_message_and_in_the_proof() -> None:
    scram = Scram("SHA-256", "token-id", "aG1hYw==", token_auth=True, make_nonce=lambda: "abc")
    assert scram.first() == b"n,,n=token-id,r=abc,tokenauth=true"
    assert scram.identity == "delegation token 'token-id'"
    server = ScramServer("sha256", "token-id", "aG1hYw==")
    assert scram.answer(server.end(answered(scram, server.begin(scram.first())))) is None
    assert server.extensions == "tokenauth=true"
    assert "aG1hYw==" not in scram.identity + scram.remedy + repr(scram)


def test_a_mechanism_that_is_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="GSSAPI"):
        make_mechanism("GSSAPI", "alice", "secret")


def test_no_mechanism_shows_its_password() -> None:
    for name in ("PLAIN", "SCRAM-SHA-256"):
        mechanism = make_mechanism(name, "alice", "tell-nobody")
        assert mechanism.name == name
        assert mechanism.identity == "user 'alice'"
        assert "tell-nobody" not in repr(mechanism) + str(mechanism)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@settings(max_examples=10)
@given(username=st.text(min_size=1, max_size=8), password=st.text(min_size=1, max_size=8))
def test_any_name_and_password_pass(mechanism: str, username: str, password: str) -> None:
    username, password = (text.encode("utf-8", "ignore").decode() or "x" for text in (username, password))
    server = ScramServer(mechanism.removeprefix("SCRAM-").replace("-", ""), username, password)
    scram = make_mechanism(mechanism, username, password)
    assert scram.answer(server.end(answered(scram, server.begin(scram.first())))) is None


def answered(scram: Scram | Plain, challenge: bytes) -> bytes:
    out = scram.answer(challenge)
    assert out is not None
    return out


def test_a_wrong_password_is_told() -> None:
    server = ScramServer("SHA256", "alice", "right")
    scram = make_mechanism("SCRAM-SHA-256", "alice", "wrong")
    answer = server.end(answered(scram, server.begin(scram.first())))
    with pytest.raises(AuthenticationFailedError, match="invalid-proof"):
        scram.answer(answer)


def test_a_server_without_the_password_is_found_out() -> None:
    server = ScramServer("SHA256", "alice", "secret")
    scram = make_mechanism("SCRAM-SHA-256", "alice", "secret")
    scram.answer(server.begin(scram.first()))
    with pytest.raises(AuthenticationFailedError, match="could not prove"):
        scram.answer(b"v=" + b64encode(bytes(32)))


def test_salted_passwords_are_kept_for_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScramServer("SHA256", "alice", "secret")
    kept = SaltedPasswords()
    for _ in range(2):
        scram = make_mechanism("SCRAM-SHA-256", "alice", "secret", kept)
        assert scram.answer(server.end(answered(scram, server.begin(scram.first())))) is None
        # From now on there is nothing left to compute.
        monkeypatch.delattr(hashlib, "pbkdf2_hmac", raising=False)
    with pytest.raises(AttributeError):
        kept("SHA256", "another", server.salt, server.iterations)


def test_a_server_that_changes_its_salts_fills_no_memory() -> None:
    kept = SaltedPasswords()
    for number in range(100):
        kept("SHA256", "secret", bytes([number]), 1)
    assert len(kept._kept) <= 16


@pytest.mark.parametrize(
    ("first", "match"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r={nonce},s=c2FsdA==,i=4096", "nonce"),
        (b"r={nonce}x,s=c2FsdA==,i=1", "iterations"),
        (b"r={nonce}x,s=c2FsdA==,i=2000000000", "iterations"),
        (b"r={nonce}x,s=c2FsdA==,i=000004096000", "iterations"),
        (b"r={nonce}x,s=c2FsdA==,i=-4096", "iterations"),
        (b"r={nonce}x,s=!!!,i=4096", "salt"),
        (b"r={nonce}x", "iterations"),
        (b"", "nonce"),
        (b"\xff\xfe,,,=", "nonce"),
    ],
)
def test_a_bad_first_answer_is_refused(first: bytes, match: str) -> None:
    scram = make_mechanism("SCRAM-SHA-512", "alice", "secret")
    nonce = scram.first().rpartition(b"r=")[2]
    with pytest.raises(AuthenticationFailedError, match=match):
        scram.answer(first.replace(b"{nonce}", nonce))

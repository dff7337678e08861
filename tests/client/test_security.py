"""SASL exchanges, by the examples of their RFCs and against a server's side written from them."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.client.errors import AuthenticationError
from kafkalog.client.security import Exchange, _scram, sasl_exchange


def finish(exchange: Exchange, answer: bytes) -> None:
    """The exchange takes the last answer and is content."""
    with pytest.raises(StopIteration):
        exchange.send(answer)


def test_plain_is_rfc_4616() -> None:
    exchange = sasl_exchange("PLAIN", "tim", "tanstaaftanstaaf")
    assert next(exchange) == b"\0tim\0tanstaaftanstaaf"
    finish(exchange, b"")


def test_scram_sha_256_is_the_example_of_rfc_7677() -> None:
    exchange = _scram("SHA256", "user", "pencil", lambda: "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert exchange.send(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()) == (
        f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    finish(exchange, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


class ScramServer:
    """The server's side of RFC 5802, from the stored keys of one user."""

    def __init__(self, algorithm: str, username: str, password: str, iterations: int = 4096) -> None:
        self.algorithm = algorithm
        self.username = username
        self.salt = os.urandom(16)
        self.iterations = iterations
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), self.salt, iterations)
        self.stored_key = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
        self.server_key = hmac.digest(salted, b"Server Key", algorithm)
        self.first = ""
        self.bare = ""

    def begin(self, message: bytes) -> bytes:
        header, _, self.bare = message.decode().partition(",,")
        assert header == "n"
        name, nonce = self.bare.split(",r=")
        assert name.removeprefix("n=").replace("=2C", ",").replace("=3D", "=") == self.username
        self.first = (
            f"r={nonce}{b64encode(os.urandom(9)).decode()},s={b64encode(self.salt).decode()},i={self.iterations}"
        )
        return self.first.encode()

    def end(self, message: bytes) -> bytes:
        without_proof, _, proof = message.decode().rpartition(",p=")
        signed = f"{self.bare},{self.first},{without_proof}".encode()
        signature = hmac.digest(self.stored_key, signed, self.algorithm)
        client_key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
        if hashlib.new(self.algorithm, client_key).digest() != self.stored_key:
            return b"e=invalid-proof"
        return b"v=" + b64encode(hmac.digest(self.server_key, signed, self.algorithm))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@settings(max_examples=10)
@given(username=st.text(min_size=1, max_size=8), password=st.text(min_size=1, max_size=8))
def test_any_name_and_password_pass(mechanism: str, username: str, password: str) -> None:
    username, password = (text.encode("utf-8", "ignore").decode() or "x" for text in (username, password))
    server = ScramServer(mechanism.removeprefix("SCRAM-").replace("-", ""), username, password)
    exchange = sasl_exchange(mechanism, username, password)
    finish(exchange, server.end(exchange.send(server.begin(next(exchange)))))


def test_a_wrong_password_is_told() -> None:
    server = ScramServer("SHA256", "alice", "right")
    exchange = sasl_exchange("SCRAM-SHA-256", "alice", "wrong")
    answer = server.end(exchange.send(server.begin(next(exchange))))
    with pytest.raises(AuthenticationError, match="invalid-proof"):
        exchange.send(answer)


def test_a_server_without_the_password_is_found_out() -> None:
    server = ScramServer("SHA256", "alice", "secret")
    exchange = sasl_exchange("SCRAM-SHA-256", "alice", "secret")
    exchange.send(server.begin(next(exchange)))
    with pytest.raises(AuthenticationError, match="could not prove"):
        exchange.send(b"v=" + b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("first", "match"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r={nonce},s=c2FsdA==,i=4096", "nonce"),
        (b"r={nonce}x,s=c2FsdA==,i=1", "iterations"),
        (b"r={nonce}x,s=c2FsdA==,i=2000000000", "iterations"),
        (b"r={nonce}x,s=c2FsdA==,i=-4096", "iterations"),
        (b"r={nonce}x,s=!!!,i=4096", "salt"),
        (b"r={nonce}x", "iterations"),
        (b"", "nonce"),
        (b"\xff\xfe,,,=", "nonce"),
    ],
)
def test_a_bad_first_answer_is_refused(first: bytes, match: str) -> None:
    exchange = sasl_exchange("SCRAM-SHA-512", "alice", "secret")
    nonce = next(exchange).rpartition(b"r=")[2]
    with pytest.raises(AuthenticationError, match=match):
        exchange.send(first.replace(b"{nonce}", nonce))

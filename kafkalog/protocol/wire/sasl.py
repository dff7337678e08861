"""SASL mechanisms, the client's side: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

A mechanism is an object that takes the server's messages and returns the client's next message. SCRAM is as in Kafka:
no channel binding; user name and password in plain UTF-8 (no SASLprep).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Protocol

from kafkalog.protocol.wire.errors import AuthenticationFailedError

MIN_ITERATIONS = 4096
"""RFC 7677; Kafka refuses to store fewer."""
MAX_ITERATIONS = 1 << 20
"""A limit against servers that would waste the client's processor time. Kafka allows 16,384."""
PASSWORD_REMEDY = "check sasl.username and sasl.password"
TOKEN_REMEDY = "check that the delegation token is not expired, and username and password in sasl.jaas.config"
_KEPT_KEYS = 16
_MAX_DIGITS = 9


class Mechanism(Protocol):
    """One authentication by one SASL mechanism; a new connection needs a new one."""

    @property
    def name(self) -> str:
        """The mechanism's name, as SaslHandshake carries it."""

    @property
    def identity(self) -> str:
        """The identity that authenticates, for messages: `user 'alice'`. Never a secret."""

    @property
    def remedy(self) -> str:
        """The remedy to name where the server refuses, for messages: the names of options."""

    def first(self) -> bytes:
        """Return the first message to send."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Take the server's message and return the next message to send; None when authentication is complete.

        This may take long, as with SCRAM and many iterations.

        Raises:
            AuthenticationFailedError: The server could not prove its identity, or sent an invalid message.
        """


class SaltedPasswords:
    """A cache of SCRAM's salted passwords for several connections, because computing one is slow by design."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, bytes, int], bytes] = {}

    def __call__(self, algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
        """Return a salted password, computed or cached. Several threads may call this."""
        key = algorithm, password, salt, iterations
        found = self._kept.get(key)
        if found is None:
            found = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
            if len(self._kept) >= _KEPT_KEYS:
                # Servers that change their salts are rare, or hostile.
                self._kept.clear()
            self._kept[key] = found
        return found


class Plain:
    """PLAIN: sends the password itself."""

    name = "PLAIN"
    remedy = PASSWORD_REMEDY

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password

    @property
    def identity(self) -> str:
        """The user that authenticates, for messages."""
        return f"user {self._username!r}"

    def first(self) -> bytes:
        """Return user name and password."""
        return f"\0{self._username}\0{self._password}".encode()

    def answer(self, challenge: bytes) -> None:
        """Ignore the server's message: it has accepted the password."""


class Scram:
    """SCRAM: proves that the client knows the password, and checks the server's proof that it does.

    Args:
        algorithm: `SHA-256` or `SHA-512`.
        username: The user's name.
        password: The user's password.
        token_auth: Whether the name is the id of a delegation token, and the password its HMAC in Base64 (KIP-48).
        salted_passwords: Computes salted passwords; the owner of several connections gives the same to all.
        make_nonce: Makes a fresh random string of printable ASCII without commas.
    """

    def __init__(
        self,
        algorithm: str,
        username: str,
        password: str,
        *,
        token_auth: bool = False,
        salted_passwords: SaltedPasswords | None = None,
        make_nonce: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.name = f"SCRAM-{algorithm}"
        self._algorithm = algorithm.replace("-", "")
        self._password = password
        self._salted_passwords = salted_passwords or SaltedPasswords()
        self._nonce = make_nonce()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._client_first = f"n={name},r={self._nonce}{',tokenauth=true' if token_auth else ''}"
        self.identity = f"delegation token {username!r}" if token_auth else f"user {username!r}"
        self.remedy = TOKEN_REMEDY if token_auth else PASSWORD_REMEDY
        self._server_signature: bytes | None = None
        """The signature that the server has to send; None before its first message."""

    def first(self) -> bytes:
        """Return the user's name and a nonce."""
        return f"n,,{self._client_first}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Answer the server's nonce and salt with a proof; then check the server's proof."""
        message = challenge.decode("utf-8", "replace")
        if self._server_signature is None:
            return self._prove(message)
        self._check(message, self._server_signature)
        return None

    def _prove(self, server_first: str) -> bytes:
        fields = _attributes(server_first)
        server_nonce, salt, iterations = fields.get("r", ""), _base64(fields.get("s", "")), fields.get("i", "")
        if not server_nonce.startswith(self._nonce) or len(server_nonce) == len(self._nonce):
            raise AuthenticationFailedError("SCRAM: the broker's nonce does not continue ours")
        # Longer numbers are beyond the limit, or have zeros in front of them.
        count = int(iterations) if iterations.isdecimal() and len(iterations) <= _MAX_DIGITS else 0
        if not MIN_ITERATIONS <= count <= MAX_ITERATIONS or not salt:
            raise AuthenticationFailedError(
                f"SCRAM: the broker asks for {iterations[:20]!r} iterations over {len(salt)} bytes of salt; "
                f"{MIN_ITERATIONS} to {MAX_ITERATIONS} iterations and some salt are accepted"
            )
        algorithm = self._algorithm
        salted = self._salted_passwords(algorithm, self._password, salt, count)
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        without_proof = f"c={b64encode(b'n,,').decode()},r={server_nonce}"
        message = f"{self._client_first},{server_first},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), message, algorithm)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), message, algorithm)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _check(self, server_final: str, signature: bytes) -> None:
        fields = _attributes(server_final)
        if "e" in fields:
            raise AuthenticationFailedError(f"SCRAM: {fields['e']}")
        if not hmac.compare_digest(_base64(fields.get("v", "")), signature):
            raise AuthenticationFailedError("SCRAM: the broker could not prove that it knows the password")


def make_mechanism(
    name: str, username: str, password: str, salted_passwords: SaltedPasswords | None = None
) -> Plain | Scram:
    """Make the mechanism of a name.

    Raises:
        ValueError: There is no such mechanism here.
    """
    if name == Plain.name:
        return Plain(username, password)
    if name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        return Scram(name.removeprefix("SCRAM-"), username, password, salted_passwords=salted_passwords)
    raise ValueError(f"no SASL mechanism {name!r}; PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are spoken here")


def _attributes(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""

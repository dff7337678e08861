"""Credentials of SCRAM users: the keys that a broker keeps instead of a password (RFC 5802), and their stored form.

Kafka stores a credential as text, beside the quotas of the user:

    SCRAM-SHA-256=salt=<base64>,stored_key=<base64>,server_key=<base64>,iterations=4096

Neither key is enough to log in as the user. But who has them can try passwords, and can pretend to be a broker.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import Enum

MIN_ITERATIONS = 4096
"""RFC 7677; Kafka refuses to store fewer."""
MAX_ITERATIONS = 16_384
"""Kafka refuses to store more."""
DEFAULT_ITERATIONS = 4096
"""The number that Kafka's own tool takes."""
SALT_BYTES = 20
_MOST_DIGITS = 9
_FIELDS = frozenset({"salt", "stored_key", "server_key", "iterations"})


class ScramMechanism(Enum):
    """A SCRAM mechanism; the value is its name in the protocol."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def algorithm(self) -> str:
        """The hash function, by its name in `hashlib`."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        """The length of keys, proofs and signatures."""
        return 32 if self is ScramMechanism.SHA_256 else 64

    @property
    def type(self) -> int:
        """The number in requests about credentials (KIP-554)."""
        return 1 if self is ScramMechanism.SHA_256 else 2

    @classmethod
    def of_type(cls, number: int) -> ScramMechanism | None:
        """Return the mechanism of a number in a request; None if there is none."""
        return next((each for each in cls if each.type == number), None)

    @classmethod
    def of_name(cls, name: str) -> ScramMechanism | None:
        """Return the mechanism of a name; None if it is not one of SCRAM's."""
        return next((each for each in cls if each.value == name), None)

    def digest(self, data: bytes) -> bytes:
        """Return the hash of `data`."""
        return hashlib.new(self.algorithm, data).digest()

    def sign(self, key: bytes, message: bytes) -> bytes:
        """Return the HMAC of a message."""
        return hmac.digest(key, message, self.algorithm)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Compute a salted password. This takes milliseconds, by design."""
        return hashlib.pbkdf2_hmac(self.algorithm, password.encode(), salt, iterations)


class CredentialError(ValueError):
    """The text is no credential. The message shows nothing of it."""


@dataclass(frozen=True)
class ScramCredential:
    """The keys by which a broker knows one user's password for one mechanism."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
    ) -> ScramCredential:
        """Make the credential of a salted password."""
        stored_key = mechanism.digest(mechanism.sign(salted_password, b"Client Key"))
        return cls(salt, stored_key, mechanism.sign(salted_password, b"Server Key"), iterations)

    @classmethod
    def of_password(
        cls,
        mechanism: ScramMechanism,
        password: str,
        iterations: int = DEFAULT_ITERATIONS,
        salt: bytes | None = None,
    ) -> ScramCredential:
        """Make the credential of a password, with a new salt unless one is given. This takes milliseconds."""
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        return cls.of_salted(mechanism, salt, mechanism.salted_password(password, salt, iterations), iterations)

    @classmethod
    def parse(cls, mechanism: ScramMechanism, text: str) -> ScramCredential:
        """Parse the stored form.

        Raises:
            CredentialError: The text is no credential of this mechanism.
        """
        parts = [part.partition("=") for part in text.split(",")]
        values = {name: value for name, _, value in parts}
        if len(parts) != len(_FIELDS) or values.keys() != _FIELDS:
            raise CredentialError(f"a credential of {mechanism.value} has the fields {', '.join(sorted(_FIELDS))}")
        digits = values["iterations"]
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS) or int(digits) < 1:
            raise CredentialError("the iterations of a credential are a positive number")
        salt, stored_key, server_key = (_decoded(values[name]) for name in ("salt", "stored_key", "server_key"))
        if not salt or {len(stored_key), len(server_key)} != {mechanism.key_bytes}:
            raise CredentialError(f"the keys of a credential of {mechanism.value} have {mechanism.key_bytes} bytes")
        return cls(salt, stored_key, server_key, int(digits))

    def text(self) -> str:
        """Return the stored form, which is a secret."""
        salt, stored, server = (b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise CredentialError("the salt and the keys of a credential stand in Base64") from None

"""TLS contexts and SASL mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

SCRAM as Kafka has it: no channel binding, user name and password as they are in UTF-8 (no SASLprep).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import ssl
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from functools import lru_cache

from .config import ClientConfig
from .errors import AuthenticationError, ConfigError

MIN_ITERATIONS = 4096
"""RFC 7677; Kafka refuses to store fewer."""
MAX_ITERATIONS = 1 << 20
"""A server that asks for more wants our processor, not our proof. Kafka allows 16,384."""

Exchange = Generator[bytes, bytes, None]
"""A SASL exchange: yields what to send, is sent what the server answered, ends when both sides are content."""


def make_ssl_context(config: ClientConfig) -> ssl.SSLContext:
    """A client context that verifies the broker's certificate, and its name unless told otherwise.

    ConfigError where a PEM file cannot be used.
    """
    check_name = config.ssl_endpoint_identification_algorithm.lower()
    if check_name not in ("https", "", "none"):
        raise ConfigError(f"ssl.endpoint.identification.algorithm={check_name}: expected https, or none to turn it off")
    ca_file = config.ssl_ca_location or config.ssl_truststore_location
    try:
        if ca_file or config.ssl_ca_pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cafile=ca_file, cadata=_unfold(config.ssl_ca_pem))
        else:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read trusted certificates from {ca_file or 'the PEM text given'}: {error}") from None
    context.check_hostname = check_name == "https"
    _load_own_certificate(context, config)
    return context


def _load_own_certificate(context: ssl.SSLContext, config: ClientConfig) -> None:
    password = config.ssl_key_password
    try:
        if config.ssl_keystore_certificate_chain and config.ssl_keystore_key:
            # The ssl module reads keys from files alone.
            chain, key = _unfold(config.ssl_keystore_certificate_chain), _unfold(config.ssl_keystore_key)
            handle, path = tempfile.mkstemp(suffix=".pem")
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(f"{key}\n{chain}\n")
                context.load_cert_chain(path, password=password)
            finally:
                os.unlink(path)
        elif config.ssl_keystore_location:
            context.load_cert_chain(config.ssl_keystore_location, password=password)
        elif config.ssl_certificate_location:
            context.load_cert_chain(config.ssl_certificate_location, config.ssl_key_location, password)
    except (OSError, ValueError) as error:
        path = config.ssl_keystore_location or config.ssl_certificate_location or "ssl.keystore.key"
        raise ConfigError(f"cannot use the client certificate and key of {path}: {error}") from None


def _unfold(pem: str | None) -> str | None:
    """PEM text with the line breaks that properties files write as \\n."""
    return None if pem is None else pem.replace("\\n", "\n")


def sasl_exchange(mechanism: str, username: str, password: str) -> Exchange:
    """The client's side of a mechanism. Raises AuthenticationError where the server is not who it should be."""
    if mechanism == "PLAIN":
        return _plain(username, password)
    return _scram(mechanism.removeprefix("SCRAM-").replace("-", ""), username, password)


def _plain(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def _scram(
    algorithm: str, username: str, password: str, make_nonce: Callable[[], str] = lambda: secrets.token_hex(16)
) -> Exchange:
    name = username.replace("=", "=3D").replace(",", "=2C")
    nonce = make_nonce()
    client_first = f"n={name},r={nonce}"
    server_first = (yield f"n,,{client_first}".encode()).decode("utf-8", "replace")
    fields = _attributes(server_first)
    server_nonce, salt, iterations = fields.get("r", ""), _base64(fields.get("s", "")), fields.get("i", "")
    if not server_nonce.startswith(nonce) or len(server_nonce) == len(nonce):
        raise AuthenticationError("SCRAM: the broker's nonce does not continue ours")
    if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations[:9]) <= MAX_ITERATIONS or not salt:
        raise AuthenticationError(
            f"SCRAM: the broker asks for {iterations[:20]!r} iterations over {len(salt)} bytes of salt; "
            f"{MIN_ITERATIONS} to {MAX_ITERATIONS} iterations and some salt are accepted"
        )
    salted = _salted_password(algorithm, password, salt, int(iterations))
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    without_proof = f"c={b64encode(b'n,,').decode()},r={server_nonce}"
    message = f"{client_first},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), message, algorithm)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    server_final = (yield f"{without_proof},p={b64encode(proof).decode()}".encode()).decode("utf-8", "replace")
    fields = _attributes(server_final)
    if "e" in fields:
        raise AuthenticationError(f"SCRAM: {fields['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), message, algorithm)
    if not hmac.compare_digest(_base64(fields.get("v", "")), expected):
        raise AuthenticationError("SCRAM: the broker could not prove that it knows the password")


@lru_cache(16)
def _salted_password(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Kept, for a client makes several connections, and this is meant to be slow."""
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


def _attributes(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""

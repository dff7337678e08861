"""Assertions that a client signs with its own key for a token endpoint (RFC 7523, KIP-1139)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.oauth.options import OAuthOptions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_PREFIX = "sasl.oauthbearer.assertion."
_KEY_FILE, _PASSPHRASE = f"{_PREFIX}private.key.file", f"{_PREFIX}private.key.passphrase"
_TEMPLATE = f"{_PREFIX}template.file"


def make_assertion(options: OAuthOptions) -> Callable[[], str]:
    """Make what makes the assertion of each request.

    It reads the assertion from a file, or signs a new one. Files are read each time, so that they may be replaced.

    Raises:
        ConfigError: Neither a file with an assertion nor a key is named, or the packages to sign with are missing.
    """
    file = options.assertion_file
    if file is not None:
        return lambda: _read(f"{_PREFIX}file", file).strip()
    if options.assertion_key_file is None and options.assertion_key_pem is None:
        raise ConfigError(f"an assertion needs {_PREFIX}file or {_KEY_FILE}")
    try:
        import cryptography  # noqa: F401 - an optional package
        import jwt  # noqa: F401 - an optional package
    except ImportError:
        raise ConfigError(
            f"{_KEY_FILE} needs the packages PyJWT and cryptography: pip install 'kafkalog[oauth]'"
        ) from None
    return lambda: sign(options, time.time())


def sign(options: OAuthOptions, now: float) -> str:
    """Sign an assertion that is valid at the time `now`, in seconds since 1970.

    Claims of the options replace those of the template.

    Raises:
        AuthenticationError: The template or the key cannot be used.
    """
    from jwt import PyJWS, PyJWTError

    header: dict[str, Any] = {}
    payload: dict[str, Any] = {}
    if options.assertion_template is not None:
        header, payload = _template(options.assertion_template)
    header |= {"alg": options.assertion_algorithm, "typ": "JWT"}
    payload |= {"iat": int(now), "exp": int(now) + options.assertion_exp, "nbf": int(now) - options.assertion_nbf}
    named = {"aud": options.assertion_aud, "iss": options.assertion_iss, "sub": options.assertion_sub}
    payload |= {claim: value for claim, value in named.items() if value is not None}
    if options.assertion_jti:
        payload["jti"] = str(uuid.uuid4())
    try:
        return PyJWS().encode(json.dumps(payload).encode(), _private_key(options), headers=header)
    except PyJWTError as error:
        raise AuthenticationError(
            f"{_TEMPLATE}={options.assertion_template}: the header cannot be signed: {error}"
        ) from None


def _private_key(options: OAuthOptions) -> RSAPrivateKey | EllipticCurvePrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = options.assertion_key_pem
    if pem is not None:
        where, text = f"{_PREFIX}private.key.pem", pem.replace("\\n", "\n")
    else:
        where, text = f"{_KEY_FILE}={options.assertion_key_file}", _read(_KEY_FILE, options.assertion_key_file or "")
    password = options.assertion_passphrase
    try:
        key = load_pem_private_key(text.encode(), None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's message is a page of OpenSSL's reasons.
        reason = "a wrong passphrase, or " if password else ""
        remedy = "" if password else f", or an encrypted one, which needs {_PASSPHRASE}"
        raise AuthenticationError(f"{where}: {reason}no private key in PEM{remedy}") from None
    if options.assertion_algorithm == "RS256":
        if not isinstance(key, rsa.RSAPrivateKey):
            raise AuthenticationError(f"{where} is no RSA key; set {_PREFIX}algorithm=ES256 for an EC key")
        return key
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise AuthenticationError(f"{where} is no key of the curve P-256, which {_PREFIX}algorithm=ES256 needs")
    return key


def _template(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        value = json.loads(_read(_TEMPLATE, path))
    except (ValueError, RecursionError):
        value = None
    parts = [value.get(name, {}) if isinstance(value, dict) else None for name in ("header", "payload")]
    if not all(isinstance(part, dict) for part in parts):
        raise AuthenticationError(f'{_TEMPLATE}={path}: expected JSON with the objects "header" and "payload"')
    return dict(parts[0] or {}), dict(parts[1] or {})


def _read(key: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise AuthenticationError(
            f"{key}={path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error

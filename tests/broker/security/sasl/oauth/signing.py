"""Tokens and key sets made by joserfc, which has nothing in common with ours."""

from __future__ import annotations

import json
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

NOW = 1_700_000_000
CLAIMS = {"sub": "alice", "iat": NOW - 60, "exp": NOW + 600}
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


def make_key(algorithm: str, kid: str = "k1", **more: str) -> Key:
    """Return a new private key for an algorithm."""
    named: Any = {"kid": kid, **more}
    if algorithm in _CURVES:
        return ECKey.generate_key(_CURVES[algorithm], named)
    if algorithm == "EdDSA":
        return OKPKey.generate_key("Ed25519", named)
    return RSAKey.generate_key(2048, named)


def key_set(*keys: Key, **more: Any) -> str:
    """Return the public keys as an authorization server publishes them."""
    return json.dumps({"keys": [{**key.as_dict(private=False), **more} for key in keys]})


def sign(key: Key, algorithm: str, claims: dict[str, Any] | None = None, **header: Any) -> str:
    """Return a token; a header of None is left out."""
    named = {"alg": algorithm, "kid": "k1", **header}
    names = {name: value for name, value in named.items() if value is not None}
    return jwt.encode(names, CLAIMS if claims is None else claims, key, algorithms=[algorithm])

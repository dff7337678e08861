"""JWTs and keys, made and checked by libraries that are not ours."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

RSA_KEY = RSAKey.generate_key(2048, {"kid": "of-the-test", "use": "sig", "alg": "RS256"})
EC_KEY = ECKey.generate_key("P-256")


def signed(lifetime: float = 3600.0, key: RSAKey = RSA_KEY, **claims: Any) -> str:
    """Make a token that ends `lifetime` seconds from now."""
    now = time.time()
    payload = {"sub": "alice", "iat": int(now), "exp": int(now + lifetime), "scope": "kafka", **claims}
    return jwt.encode({"alg": "RS256", "kid": key.kid}, payload, key)


def claims_of(token: str, key: RSAKey | ECKey) -> dict[str, Any]:
    """Check the signature of a token, and return its claims."""
    return dict(jwt.decode(token, key, algorithms=["RS256", "ES256"]).claims)


def write_keys(path: Path, key: RSAKey = RSA_KEY) -> Path:
    """Write the public key as brokers read it (JWKS)."""
    path.write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    return path

"""Make bearer tokens (JSON Web Tokens, RFC 7519) as an authorization server would, with the openssl program.

Apache Kafka's development validator takes tokens without a signature. Its production validator takes those that a
key of a JSON Web Key Set (RFC 7517) has signed by RS256.
"""

from __future__ import annotations

import json
import subprocess
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

KEY_ID = "peers"
ISSUER = "https://issuer.example"
AUDIENCE = "kafka"
_EXPONENT = 65537


def unsecured_token(subject: str, lifetime_s: int = 3600) -> str:
    """Return a token without a signature (RFC 7515, appendix A.5); a negative lifetime makes an expired one."""
    return f"{_part({'alg': 'none'})}.{_part(_claims(subject, lifetime_s))}."


class SigningKey:
    """An RSA key that signs tokens. Its files go to `directory`.

    Attributes:
        jwks: The file with the JSON Web Key Set that validators read.
    """

    def __init__(self, directory: Path) -> None:
        self._key = directory / "token.key"
        self.jwks = directory / "jwks.json"
        _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._key))
        said = _openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode()
        modulus = bytes.fromhex(said.strip().removeprefix("Modulus="))
        public = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": KEY_ID,
            "n": _base64(modulus),
            "e": _base64(_EXPONENT.to_bytes(3, "big")),
        }
        self.jwks.write_text(json.dumps({"keys": [public]}))

    def token(self, subject: str, lifetime_s: int = 3600, **claims: Any) -> str:
        """Return a signed token of ISSUER for AUDIENCE; `claims` replaces single claims."""
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        body = {"iss": ISSUER, "aud": AUDIENCE, **_claims(subject, lifetime_s), **claims}
        signed = f"{_part(header)}.{_part(body)}"
        signature = _openssl("dgst", "-sha256", "-sign", str(self._key), "-binary", stdin=signed.encode())
        return f"{signed}.{_base64(signature)}"


def _claims(subject: str, lifetime_s: int) -> dict[str, Any]:
    now = int(time.time())
    # One that has expired was issued even before.
    return {"sub": subject, "iat": now + min(lifetime_s, 0) - 60, "exp": now + lifetime_s}


def _part(content: dict[str, Any]) -> str:
    return _base64(json.dumps(content).encode())


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _openssl(*args: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *args], input=stdin, capture_output=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {args[0]} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")
    return done.stdout

"""The public keys of an authorization server: a JSON Web Key Set (RFC 7517), and the signatures that they check.

Only algorithms with a public key are known here (RFC 7518): RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384,
ES512 and EdDSA. So nobody can sign a token with the public key as if it were a secret (HS256), or not at all (none).
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.security.sasl.oauth.jwt import MAX_NAME, Jwt, TokenError

MOST_KEYS = 100
MIN_RSA_BITS = 2048
"""RFC 7518, section 3.3."""
_HASHES = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}
_CURVES = {"P-256": ("ES256", 32), "P-384": ("ES384", 48), "P-521": ("ES512", 66)}
"""The algorithm of each curve, and the bytes of a number."""
_EDWARDS = frozenset({"EdDSA", "Ed25519"})
"""Both names of the same algorithm (RFC 9864)."""
_RSA = frozenset(f"{kind}{bits}" for kind in ("RS", "PS") for bits in _HASHES)


class KeySetError(Exception):
    """A key set cannot be used; the message says why."""


@dataclass(frozen=True)
class PublicKey:
    """One key of a set."""

    kid: str | None
    algorithms: frozenset[str]
    """The algorithms that it may be used with."""
    key: Any = field(repr=False)
    """The key as the library `cryptography` has it."""
    size: int = 0
    """The bytes of a number in a signature, for curves."""

    def is_signature(self, algorithm: str, signature: bytes, message: bytes) -> bool:
        """Return whether a signature of a message is this key's."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._verify(algorithm, signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def _verify(self, algorithm: str, signature: bytes, message: bytes) -> None:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

        if algorithm in _EDWARDS:
            self.key.verify(signature, message)
            return
        digest = getattr(hashes, _HASHES[algorithm[2:]])()
        if algorithm.startswith("ES"):
            if len(signature) != 2 * self.size:
                raise ValueError("the signature has another length")
            r, s = (int.from_bytes(half, "big") for half in (signature[: self.size], signature[self.size :]))
            self.key.verify(utils.encode_dss_signature(r, s), message, ec.ECDSA(digest))
        elif algorithm.startswith("PS"):
            pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
            self.key.verify(signature, message, pss, digest)
        else:
            self.key.verify(signature, message, padding.PKCS1v15(), digest)


class UnknownKeyError(TokenError):
    """A token names a key that is not known. The authorization server may have a new one."""


def verify(token: Jwt, keys: Sequence[PublicKey]) -> None:
    """Check the signature of a token.

    Raises:
        UnknownKeyError: none of the keys has the name.
        TokenError: the algorithm is not allowed, or the signature is not the key's.
    """
    algorithm, kid = token.header.get("alg"), token.header.get("kid")
    if not isinstance(algorithm, str) or "crit" in token.header:
        raise TokenError("the token's header names no algorithm, or something that has to be understood (crit)")
    if kid is not None and (not isinstance(kid, str) or len(kid) > MAX_NAME):
        raise TokenError("the token's header names no key")
    fitting = [each for each in keys if algorithm in each.algorithms]
    if kid is not None:
        named = [each for each in keys if each.kid == kid]
        if not named:
            raise UnknownKeyError(f"the token is signed by the key {kid[:100]!r}, which is not known")
        fitting = [each for each in named if algorithm in each.algorithms]
    if not fitting:
        raise TokenError(f"no key is for the algorithm {algorithm[:20]!r} of the token")
    if kid is None and len(fitting) > 1:
        raise TokenError("the token does not name its key (kid), and several are known")
    if not fitting[0].is_signature(algorithm, token.signature, token.signed):
        raise TokenError("the token's signature is not that of its key")


def parse_keys(text: bytes | str) -> tuple[PublicKey, ...]:
    """Read a key set. Keys of kinds that are not known are left out, and so are those for encryption.

    Raises:
        KeySetError: it cannot be read, or has no key to check signatures with.
    """
    try:
        found = json.loads(text)
        listed = found["keys"]
        keys = [_key(each) for each in listed[:MOST_KEYS] if isinstance(each, dict)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise KeySetError(f"it is no JSON Web Key Set ({type(error).__name__})") from None
    usable = tuple(each for each in keys if each is not None)
    if not usable:
        raise KeySetError("it has no public key to check signatures with")
    return usable


def _key(entry: Mapping[str, Any]) -> PublicKey | None:
    """Return one key; None for one that does not check signatures, or of an unknown kind.

    Raises:
        ValueError, TypeError, KeyError: it is damaged.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    operations = entry.get("key_ops")
    if entry.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        return None
    kid = entry.get("kid")
    key: Any
    size = 0
    match entry.get("kty"), entry.get("crv"):
        case "RSA", _:
            key = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()
            if key.key_size < MIN_RSA_BITS:
                return None
            algorithms = _RSA
        case "EC", str() as curve if curve in _CURVES:
            algorithm, size = _CURVES[curve]
            curves: dict[str, ec.EllipticCurve] = {
                "P-256": ec.SECP256R1(),
                "P-384": ec.SECP384R1(),
                "P-521": ec.SECP521R1(),
            }
            made = curves[curve]
            key = ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), made).public_key()
            algorithms = frozenset({algorithm})
        case "OKP", "Ed25519":
            key = ed25519.Ed25519PublicKey.from_public_bytes(_bytes(entry["x"]))
            algorithms = _EDWARDS
        case _:
            return None
    if isinstance(entry.get("alg"), str):
        algorithms &= {entry["alg"]}
    return PublicKey(kid if isinstance(kid, str) else None, algorithms, key, size)


def _bytes(text: str) -> bytes:
    data = text.encode("ascii")
    return urlsafe_b64decode(data + b"=" * (-len(data) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")

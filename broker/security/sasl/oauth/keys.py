"""The public keys of an authorization server: a JSON Web Key Set (RFC 7517), and the signatures that they check.

The package PyJWT makes the keys and checks the signatures. Only algorithms with a public key are allowed (RFC 7518):
RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA. So nobody can sign a token with the public key
as if it were a secret (HS256), or not at all (none).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from broker.security.sasl.oauth.jwt import MAX_NAME, Jwt, TokenError

if TYPE_CHECKING:
    from jwt import PyJWS

MOST_KEYS = 100
MIN_RSA_BITS = 2048
"""RFC 7518, section 3.3."""
_EDWARDS = frozenset({"EdDSA", "Ed25519"})
"""Both names of the same algorithm (RFC 9864)."""
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ALGORITHMS = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): _EDWARDS,
}
"""The algorithms of each kind of key, by its type and its curve."""
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
"""The members of a public key."""


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

    def is_signature(self, algorithm: str, token: str) -> bool:
        """Return whether the signature of a token is this key's."""
        from jwt import PyJWTError

        try:
            _signatures().decode_complete(token, self.key, [algorithm])
        except PyJWTError:
            return False
        return True


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
    if not fitting[0].is_signature(algorithm, token.text):
        raise TokenError("the token's signature is not that of its key")


def parse_keys(text: bytes | str) -> tuple[PublicKey, ...]:
    """Read a key set. Left out are keys that are damaged, of unknown kinds, or for encryption.

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
    """Return one key; None for one that does not check signatures, is damaged, or of an unknown kind."""
    from jwt import PyJWK, PyJWTError

    operations = entry.get("key_ops")
    if entry.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        return None
    kind, curve, named, kid = (entry.get(name) for name in ("kty", "crv", "alg", "kid"))
    algorithms = _ALGORITHMS.get((str(kind), None if curve is None or kind == "RSA" else str(curve)))
    if algorithms is None:
        return None
    # PyJWK takes the name of one algorithm, and makes the same key for each.
    any_of_them = "EdDSA" if algorithms is _EDWARDS else min(algorithms)
    try:
        key = PyJWK({name: entry[name] for name in _PUBLIC if name in entry}, any_of_them).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if algorithms is _RSA and key.key_size < MIN_RSA_BITS:
        return None
    if isinstance(named, str):
        algorithms &= {named}
    return PublicKey(kid if isinstance(kid, str) else None, algorithms, key)


@cache
def _signatures() -> PyJWS:
    from jwt import PyJWS
    from jwt.algorithms import OKPAlgorithm

    # PyJWT does not know the newer name.
    newer = "Ed25519"
    made = PyJWS([name for names in _ALGORITHMS.values() for name in names if name != newer])
    made.register_algorithm(newer, OKPAlgorithm())
    return made

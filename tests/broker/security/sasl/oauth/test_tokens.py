"""Test tokens: signatures of another implementation, claims, and whatever an attacker may send."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import RSAKey

from broker.security.sasl.oauth.jwt import (
    MAX_TOKEN,
    Expected,
    TokenError,
    ValidToken,
    check_claims,
    parse_jwt,
    scopes,
)
from broker.security.sasl.oauth.keys import KeySetError, UnknownKeyError, parse_keys, verify
from tests.broker.security.sasl.oauth.signing import ALGORITHMS, CLAIMS, NOW, key_set, make_key, sign

RSA = make_key("RS256")
OTHER = make_key("RS256", "k2")
EC = make_key("ES256", "ec")


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).decode().rstrip("=")


# -- signatures


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm(algorithm: str) -> None:
    key = make_key(algorithm)
    token = sign(key, algorithm)
    keys = parse_keys(key_set(key))
    verify(parse_jwt(token), keys)
    head, claims, signature = token.split(".")
    other = f"{head}.{part({**CLAIMS, 'sub': 'admin'})}.{signature}"
    with pytest.raises(TokenError, match="not that of its key"):
        verify(parse_jwt(other), keys)
    with pytest.raises(TokenError, match="not that of its key"):
        verify(parse_jwt(f"{head}.{claims}."), keys)
    with pytest.raises(TokenError, match="not that of its key"):
        verify(parse_jwt(token), parse_keys(key_set(make_key(algorithm))))


def test_a_token_chooses_no_algorithm_of_its_own() -> None:
    keys = parse_keys(key_set(RSA, EC))
    head, claims, _ = sign(RSA, "RS256").split(".")
    for algorithm in ("none", "None", "NONE", "HS256", "RS1", "", "ES512", "EdDSA"):
        forged = f"{part({'alg': algorithm, 'kid': 'k1'})}.{claims}."
        with pytest.raises(TokenError, match="no key is for the algorithm"):
            verify(parse_jwt(forged), keys)
    for header in ({}, {"alg": 1}, {"alg": "RS256", "crit": ["b64"], "b64": True}):
        with pytest.raises(TokenError, match="header names"):
            verify(parse_jwt(f"{part(header)}.{claims}."), keys)
    for more in ({"crit": ["exp"]}, {"kid": 1}, {"b64": False}):
        with pytest.raises(TokenError, match="no JWT"):
            parse_jwt(f"{part({'alg': 'RS256', **more})}.{claims}.")
    with pytest.raises(TokenError, match="no key is for"):
        verify(parse_jwt(sign(RSA, "RS256", kid="ec")), keys)
    assert head


def test_the_key_is_chosen_by_its_name() -> None:
    keys = parse_keys(key_set(OTHER, RSA, EC))
    verify(parse_jwt(sign(RSA, "RS256")), keys)
    verify(parse_jwt(sign(OTHER, "PS512", kid="k2")), keys)
    with pytest.raises(UnknownKeyError, match="'k3'"):
        verify(parse_jwt(sign(RSA, "RS256", kid="k3")), keys)
    with pytest.raises(TokenError, match="several are known"):
        verify(parse_jwt(sign(RSA, "RS256", kid=None)), keys)
    verify(parse_jwt(sign(EC, "ES256", kid=None)), keys)
    limited = parse_keys(key_set(RSA, alg="RS512"))
    with pytest.raises(TokenError, match="no key is for"):
        verify(parse_jwt(sign(RSA, "RS256")), limited)


def test_the_newer_name_of_eddsa() -> None:
    key = make_key("EdDSA")
    token = sign(key, "Ed25519")
    for named in ({}, {"alg": "Ed25519"}):
        verify(parse_jwt(token), parse_keys(key_set(key, **named)))
    with pytest.raises(TokenError, match="no key is for"):
        verify(parse_jwt(token), parse_keys(key_set(key, alg="EdDSA")))


def test_a_damaged_key_leaves_the_others() -> None:
    damaged = [{"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": ["RSA"]}, {}, 7]
    damaged += [{"kty": "RSA", "e": 7, "n": 7}, {"kty": "OKP", "crv": "Ed25519", "x": "é"}]
    text = json.dumps({"keys": [*damaged, RSA.as_dict(private=False)]})
    verify(parse_jwt(sign(RSA, "RS256")), parse_keys(text))


def test_a_private_key_is_read_as_its_public_one() -> None:
    for key, algorithm in ((RSA, "RS256"), (EC, "ES256")):
        keys = parse_keys(json.dumps({"keys": [key.as_dict(private=True)]}))
        verify(parse_jwt(sign(key, algorithm, kid=key.kid)), keys)
        assert "Private" not in type(keys[0].key).__name__


@pytest.mark.filterwarnings("ignore:Key size should be")
def test_keys_that_check_no_signatures_are_left_out() -> None:
    for more in ({"use": "enc"}, {"key_ops": ["encrypt"]}, {"kty": "oct"}, {"kty": "EC", "crv": "secp256k1"}):
        with pytest.raises(KeySetError, match="no public key"):
            parse_keys(key_set(RSA, **more))
    short = RSAKey.import_key(json.loads(SHORT))
    with pytest.raises(KeySetError, match="no public key"):
        parse_keys(key_set(short))


SHORT = json.dumps({"kty": "RSA", "kid": "k1", "e": "AQAB", "n": part(((1 << 1023) + 12345).to_bytes(128, "big"))})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": 1}', '{"keys": []}', "[" * 9999, '{"keys": [{"kty": "RSA"}]}']
)
def test_what_is_no_key_set(text: str) -> None:
    with pytest.raises(KeySetError):
        parse_keys(text)


# -- claims


def checked(expected: Expected | None = None, at: float = NOW, **claims: Any) -> ValidToken:
    given = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return check_claims(given, expected or Expected(), at)


def test_claims_that_are_right() -> None:
    assert checked() == ValidToken("alice", (NOW + 600) * 1000)
    expected = Expected("me", ("kafka", "other"), 0, "name", "scp")
    assert checked(expected, iss="me", aud="other", name="bob", scp=["a"]).principal == "bob"
    assert checked(expected, iss="me", aud=["x", "kafka"], name="bob", scp="a b").principal == "bob"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"exp": "9999999999"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": 1e300}, "exp"),
        ({"exp": float("nan")}, "exp"),
        ({"exp": NOW - 31}, "expired 31 s ago"),
        ({"exp": NOW - 30}, "expired"),
        ({"nbf": NOW + 31}, "valid in 31 s"),
        ({"iat": NOW + 700}, "expires before"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": " "}, "sub"),
        ({"sub": ["alice"]}, "sub"),
        ({"sub": "x" * 1001}, "sub"),
        ({"aud": "kafka"}, "expected is none"),
        ({"aud": 7}, "expected is none"),
        ({"scope": 7}, "scope"),
        ({"scope": ["a", 7]}, "scope"),
    ],
)
def test_claims_that_are_wrong(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenError, match=reason):
        checked(**claims)


def test_clocks_may_differ() -> None:
    assert checked(exp=NOW - 29)
    assert checked(nbf=NOW + 30)
    with pytest.raises(TokenError, match="expired"):
        checked(Expected(skew_s=0), exp=NOW)


@pytest.mark.parametrize("claims", [{}, {"iss": "you"}, {"iss": ["me"]}])
def test_another_issuer(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenError, match="expected is me"):
        checked(Expected(issuer="me"), **claims)


@pytest.mark.parametrize("claims", [{}, {"aud": "x"}, {"aud": []}, {"aud": "kafka2"}, {"aud": [["kafka"]]}])
def test_another_audience(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenError, match="expected is kafka"):
        checked(Expected(audiences=("kafka",)), **claims)


def test_scopes() -> None:
    assert scopes({"scope": "a b"}, "scope") == {"a", "b"}
    assert scopes({"scope": ["a", "b"]}, "scope") == {"a", "b"}
    assert scopes({}, "scope") == frozenset()


# -- the form


@pytest.mark.parametrize(
    "text",
    [
        "", "a.b", "a.b.c.d", "..", f"{part({})}.{part([])}.", f"{part({})}.{part(b'x')}.", f"{part({})}.+.",
        f"{part({})}={part({})}.", f"{part({})}.{part({})}.a", "é.é.é", f"{part(b'[' * 9000)}.{part({})}.",
        "x" * (MAX_TOKEN + 1),
    ],
)  # fmt: skip
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenError) as caught:
        parse_jwt(text)
    assert len(str(caught.value)) < 100


@given(st.text(alphabet="abcXYZ019-_.=é", max_size=60))
def test_any_text_is_refused(text: str) -> None:
    keys = parse_keys(key_set(EC))
    with pytest.raises(TokenError):
        verify(parse_jwt(text), keys)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["exp", "iat", "nbf", "sub", "iss", "aud", "scope"]), JSON))
def test_any_claims_are_refused_or_right(claims: dict[str, Any]) -> None:
    try:
        found = check_claims(claims, Expected(), NOW)
    except TokenError:
        return
    assert found.principal == claims["sub"]


@given(st.dictionaries(st.sampled_from(["alg", "kid", "crit", "typ"]), JSON | st.sampled_from(ALGORITHMS)))
def test_no_header_makes_a_signature_right(header: dict[str, Any]) -> None:
    keys = parse_keys(key_set(RSA, EC))
    with pytest.raises(TokenError):
        verify(parse_jwt(f"{part(header)}.{part(CLAIMS)}.{part(b'x' * 64)}"), keys)

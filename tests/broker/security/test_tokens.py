"""Test delegation tokens: their stored form, and what is derived from them."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.tokens import Token, hmac_of, of_content, password_of

TOKEN = Token("id-1", "User:ann b", "User:spark", ("User:yarn", "User:x/y"), 1000, 9000, 5000)
KAFKAS = (
    '{"version":3,"owner":"User%3Aann%20b","tokenRequester":"User%3Aspark","renewers":["User%3Ayarn","User%3Ax%2Fy"],'
    '"issueTimestamp":1000,"maxTimestamp":9000,"expiryTimestamp":5000,"tokenId":"id-1"}'
)
"""The form that Kafka's brokers write, whose `Sanitizer` encodes names as in URLs."""


def test_the_stored_form_is_kafkas() -> None:
    assert of_content(json.loads(KAFKAS)) == TOKEN
    assert TOKEN.content() == json.loads(KAFKAS)
    first = {**json.loads(KAFKAS), "version": 1}
    del first["tokenRequester"]
    assert of_content(first).requester == TOKEN.owner


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0}, {"version": 4}, {"version": "3"}, {"owner": "ann"}, {"owner": "User%3A"}, {"owner": 7},
        {"renewers": "User%3Ax"}, {"renewers": 7}, {"maxTimestamp": "9000"}, {"expiryTimestamp": 1.5}, {"tokenId": ""},
        {"issueTimestamp": True},
    ],
)  # fmt: skip
def test_damage_is_found(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        of_content({**json.loads(KAFKAS), **change})


def test_the_password_is_the_hmac() -> None:
    expected = hmac.new(b"secret", b"id-1", hashlib.sha512).digest()
    assert hmac_of("id-1", b"secret") == expected
    assert b64decode(password_of("id-1", b"secret")) == expected
    assert password_of("id-1", b"other") != password_of("id-1", b"secret")


def test_who_may_renew_and_until_when() -> None:
    assert [TOKEN.may_be_renewed_by(each) for each in ("User:ann b", "User:yarn", "User:spark")] == [True, True, False]
    assert [TOKEN.is_over(now) for now in (5000, 5001)] == [False, True]
    assert TOKEN.owner_name == "ann b"


def test_who_knows_of_it() -> None:
    assert TOKEN.concerned == ("User:ann b", "User:spark", "User:yarn", "User:x/y")


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)


@given(NAMES, NAMES, st.lists(NAMES, max_size=3))
def test_any_names_read_back(owner: str, requester: str, renewers: list[str]) -> None:
    made = Token("t", f"User:{owner}", f"User:{requester}", tuple(f"User:{each}" for each in renewers), 1, 2, 3)
    assert of_content(json.loads(json.dumps(made.content()))) == made

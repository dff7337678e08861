"""Tests of values that reach beyond their place in a JSON document."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records.arrow.json_text import first_not_enclosed

pytestmark = pytest.mark.usefixtures("each_build")

ENCLOSED = [
    b"", b"5", b"null", b"{}", b"[]", b'{"a":[1,{"b":"]}"}]}', b'"a,b:c"', rb'"\""', rb'["\\"]', b" {} ", b"{]", b"x y",
]  # fmt: skip
NOT_ENCLOSED = [
    b"]", b"}", b"[", b"{", b'"', b'"\\', rb'"\"', b"{}}", b"[]]", b"1,2", b"{},", b"a:b", b"[],[]", b"][",
    b'{"a":1}],"w":[5', rb'"\\",', b'["a]',
]  # fmt: skip


@pytest.mark.parametrize("value", ENCLOSED)
def test_values_that_stay_in_their_place(value: bytes) -> None:
    assert first_not_enclosed(pa.array([value], pa.binary())) == 1


@pytest.mark.parametrize("value", NOT_ENCLOSED)
def test_values_that_do_not(value: bytes) -> None:
    values = pa.array([b"{}", b"[1]", value, b"5"], pa.binary())
    assert first_not_enclosed(values) == 2
    assert first_not_enclosed(values.slice(1, 2)) == 1
    assert first_not_enclosed(values.slice(0, 2)) == 2
    assert first_not_enclosed(values.slice(3)) == 1


def test_no_values() -> None:
    assert first_not_enclosed(pa.array([], pa.binary())) == 0


documents: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(documents, max_size=5), st.booleans())
def test_every_document_stays(drawn: list[Any], ascii_only: bool) -> None:
    values = [json.dumps(each, ensure_ascii=ascii_only).encode(errors="surrogatepass") for each in drawn]
    assert first_not_enclosed(pa.array(values, pa.binary())) == len(values)


@given(st.text('{}[]":,a1 \\'), st.text('{}[]":,a1 \\'))
def test_what_is_accepted_cannot_change_what_is_around_it(first: str, second: str) -> None:
    values = [first, second]
    if first_not_enclosed(pa.array([each.encode() for each in values], pa.binary())) < 2:
        return
    try:
        found = json.loads(f'{{"v":[{first}],"w":[{second}]}}')
    except ValueError:
        return
    assert list(found) == ["v", "w"]
    for text, parsed in zip(values, found.values(), strict=True):
        assert parsed == ([json.loads(text)] if text.strip() else [])

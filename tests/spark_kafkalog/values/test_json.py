"""Test that JSON values decode alike in bulk and one by one, never raise, and stay in their rows."""

from __future__ import annotations

import datetime
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from spark_kafkalog.values import from_json
from spark_kafkalog.values.ddl import parse_ddl
from spark_kafkalog.values.from_json import MOST_DEPTH, JsonDecoder
from tests.support.amount import examples

pytestmark = pytest.mark.usefixtures("checked")


def decode(ddl: str | StructType, values: Sequence[bytes | None]) -> list[Any]:
    """Return the result for each value: a row, None, or "corrupt"."""
    decoder = JsonDecoder(parse_ddl(ddl) if isinstance(ddl, str) else ddl)
    found, bad = decoder.decode(pa.array(values, pa.binary()))
    found.validate(full=True)
    assert found.type == decoder.type
    assert len(found) == len(bad) == len(values)
    rows = found.to_pylist(maps_as_pydicts="strict")
    for row, is_bad in zip(rows, bad.to_pylist(), strict=True):
        assert not (is_bad and row is not None)
    return ["corrupt" if is_bad else row for row, is_bad in zip(rows, bad.to_pylist(), strict=True)]


LCM = math.lcm(*range(1, 50))
ONE = [
    # type, as it is written, the value or "corrupt"
    ("BIGINT", "9223372036854775807", 2**63 - 1),
    ("BIGINT", "9223372036854775808", "corrupt"),
    ("BIGINT", "1.0", "corrupt"),
    ("BIGINT", '"1"', "corrupt"),
    ("BIGINT", "true", "corrupt"),
    ("BIGINT", "null", None),
    ("TINYINT", "-128", -128),
    ("TINYINT", "128", "corrupt"),
    ("DOUBLE", "1", 1.0),
    ("DOUBLE", "1e3", 1000.0),
    ("DOUBLE", '"Infinity"', math.inf),
    ("DOUBLE", '"-INF"', -math.inf),
    ("DOUBLE", '"INF"', "corrupt"),
    ("DOUBLE", '"1.5"', "corrupt"),
    ("FLOAT", "0.1", 0.10000000149011612),
    ("FLOAT", "1e39", math.inf),
    # As a double it would lie between two floats, and be rounded up.
    ("FLOAT", "1.00000017881393432617187499", 1.0000001192092896),
    ("BOOLEAN", "true", True),
    ("BOOLEAN", "1", "corrupt"),
    ("STRING", '"é\\u00e9\\n"', "éé\n"),
    ("STRING", "1.50", "1.50"),
    ("STRING", "true", "true"),
    ("STRING", '{"q": [1, "x", null]}', '{"q":[1,"x",null]}'),
    ("STRING", '"a\nb"', "corrupt"),
    ("STRING", '"\\ud800"', "corrupt"),
    ("DECIMAL(5,2)", "1.255", Decimal("1.26")),
    ("DECIMAL(5,2)", '"1.2"', Decimal("1.20")),
    ("DECIMAL(5,2)", "1000", "corrupt"),
    ("DECIMAL(5,2)", "1e60", "corrupt"),
    ("DECIMAL(38,0)", "1" * 38, Decimal("1" * 38)),
    ("DECIMAL(38,0)", "1" * 39, "corrupt"),
    ("DECIMAL(5,2)", "999.999", "corrupt"),
    ("DECIMAL(5,2)", '"x"', "corrupt"),
    ("DECIMAL(5,2)", '"1_0"', "corrupt"),
    ("DECIMAL(5,2)", '" 1"', "corrupt"),
    ("DECIMAL(6,2)", '"1,000"', Decimal("1000.00")),
    ("DECIMAL(38,18)", "9" * 20, Decimal("9" * 20)),
    ("DECIMAL(38,18)", "400000000000000000000", "corrupt"),
    ("DECIMAL(38,18)", '"-400000000000000000000"', "corrupt"),
    ("DECIMAL(38,18)", "3.5e20", "corrupt"),
    # This number with 18 zeros is 7 << 18 in the lowest 256 bits.
    ("DECIMAL(38,18)", str(7 * pow(5**18, -1, 2**238) % 2**238), "corrupt"),
    ("DECIMAL(38,10)", "4" + "0" * 28, "corrupt"),
    ("DECIMAL(38,2)", "-4" + "0" * 36, "corrupt"),
    ("DECIMAL(38,38)", "0." + "9" * 38, Decimal("0." + "9" * 38)),
    ("DECIMAL(38,38)", "1", "corrupt"),
    # pyarrow's reader divides these by what lies behind its powers of ten.
    ("DECIMAL(38,0)", f"{LCM}e-111", Decimal(0)),
    ("DECIMAL(38,0)", f"{LCM}.{'0' * 12}e-99", Decimal(0)),
    ("DECIMAL(38,0)", f"{LCM}.{'0' * 53}e-58", Decimal(0)),
    ("DECIMAL(38,0)", f'"{LCM}e-111"', Decimal(0)),
    ("DECIMAL(38,0)", rf'"{LCM}\u0065\u002d11\u0031"', Decimal(0)),
    ("DECIMAL(38,18)", "1.5e-10", Decimal("1.5e-10")),
    ("DECIMAL(5,2)", "1e999999999", "corrupt"),
    ("DATE", '"2024-02-29"', datetime.date(2024, 2, 29)),
    ("DATE", '"2024-2-9"', datetime.date(2024, 2, 9)),
    ("DATE", '"2023-02-29"', "corrupt"),
    ("DATE", '"2020-01-02T03:04:05Z"', datetime.date(2020, 1, 2)),
    ("DATE", '"2020-01-02 03:04:05"', datetime.date(2020, 1, 2)),
    ("DATE", '"2020-01"', datetime.date(2020, 1, 1)),
    ("DATE", '"2020"', datetime.date(2020, 1, 1)),
    ("DATE", '"-150"', datetime.date(1969, 8, 4)),
    ("DATE", "5", "corrupt"),
    ("DATE", '"6000000-01-01"', "corrupt"),
    ("DATE", '"-9999999-01-01"', "corrupt"),
    ("TIMESTAMP", '"2024-01-02T03:04:05.678901+02:00"', datetime.datetime(2024, 1, 2, 1, 4, 5, 678901, datetime.UTC)),
    ("TIMESTAMP", '"2024-01-02 03:04:05"', datetime.datetime(2024, 1, 2, 3, 4, 5, 0, datetime.UTC)),
    ("TIMESTAMP", "1700000000", datetime.datetime(2023, 11, 14, 22, 13, 20, 0, datetime.UTC)),
    ("TIMESTAMP", '"2024-1-2 3:4:5"', datetime.datetime(2024, 1, 2, 3, 4, 5, 0, datetime.UTC)),
    ("TIMESTAMP", '"2024"', datetime.datetime(2024, 1, 1, 0, 0, 0, 0, datetime.UTC)),
    ("TIMESTAMP", '"2024-01-02 03:04:05 UTC"', datetime.datetime(2024, 1, 2, 3, 4, 5, 0, datetime.UTC)),
    ("TIMESTAMP", '"2024-01-02T03:04:05.6+0200"', datetime.datetime(2024, 1, 2, 1, 4, 5, 600000, datetime.UTC)),
    ("TIMESTAMP", '"2024-01-02 03:04:05 Europe/Berlin"', "corrupt"),
    ("TIMESTAMP", '"2024-01-02T03:04:05+18:01"', "corrupt"),
    ("TIMESTAMP", '"2024-01-02T03:04Z"', "corrupt"),
    ("TIMESTAMP", '"2024-01-02T0304"', "corrupt"),
    ("TIMESTAMP", r'"2024-01-02T03\u003a04Z"', "corrupt"),
    ("TIMESTAMP", '"20240102"', "corrupt"),
    ("TIMESTAMP", '"2024-W01-1"', "corrupt"),
    ("TIMESTAMP", '"2024-01-02T03:04:05,5Z"', "corrupt"),
    ("TIMESTAMP", '"03:04:05"', "corrupt"),
    ("TIMESTAMP", '"yesterday"', "corrupt"),
    ("TIMESTAMP", "9223372036855", "corrupt"),
    ("TIMESTAMP_NTZ", '"2024-01-02T03:04:05"', datetime.datetime(2024, 1, 2, 3, 4, 5)),
    ("TIMESTAMP_NTZ", '"2024-01-02 03:04:05.678901"', datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)),
    ("TIMESTAMP_NTZ", '"2024-01-02"', datetime.datetime(2024, 1, 2)),
    ("TIMESTAMP_NTZ", '"2024-01-02T03:04:05+05:00"', "corrupt"),
    ("TIMESTAMP_NTZ", '"2024-01-02T03:04:05Z"', "corrupt"),
    ("TIMESTAMP_NTZ", '"2024-1-2"', datetime.datetime(2024, 1, 2)),
    ("TIMESTAMP_NTZ", '"2024-01-02T030405"', "corrupt"),
    ("TIMESTAMP_NTZ", "5", "corrupt"),
    ("ARRAY<INT>", "[1, null, 3]", [1, None, 3]),
    ("ARRAY<INT>", "[]", []),
    ("ARRAY<INT>", "1", "corrupt"),
    ("MAP<STRING, INT>", '{"x": 1, "y": null}', {"x": 1, "y": None}),
    ("MAP<STRING, INT>", '{"x": "1"}', "corrupt"),
    ("STRUCT<b: INT>", '{"b": 1, "c": 2}', {"b": 1}),
    ("STRUCT<b: INT>", "{}", {"b": None}),
    ("STRUCT<b: INT>", "[]", "corrupt"),
]


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make small batches be divided as large ones are."""
    monkeypatch.setattr(from_json, "SLOW_BYTES", 0)


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize(("kind", "text", "expected"), ONE)
def test_types(kind: str, text: str, expected: Any, others: int) -> None:
    """Alone, and among others so that a batch has to be cut."""
    values = [b"{}"] * others + [f'{{"a": {text}}}'.encode()] + [None] * others
    row = "corrupt" if expected == "corrupt" else {"a": expected}
    assert decode(f"a {kind}", values) == [{"a": None}] * others + [row] + [None] * others


@pytest.mark.parametrize(("kind", "text", "expected"), ONE)
def test_an_invalid_record_changes_no_other(kind: str, text: str, expected: Any) -> None:
    """It makes the records of its batch be parsed one by one."""
    row = "corrupt" if expected == "corrupt" else {"a": expected}
    assert decode(f"a {kind}", [f'{{"a": {text}}}'.encode(), b"{"]) == [row, "corrupt"]


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        # days or microseconds since 1970, because Python has no such dates
        ("DATE", "0000-01-01", -719_528),
        ("DATE", "0000-12-31", -719_163),
        ("TIMESTAMP", "0000-02-29T00:00:01.5", -719_469 * 86_400_000_000 + 1_500_000),
        ("TIMESTAMP", "0001-01-01T00:00:00+05:00", -719_162 * 86_400_000_000 - 5 * 3_600_000_000),
        ("TIMESTAMP", "9999-12-31T23:00:00-05:00", 2_932_897 * 86_400_000_000 + 4 * 3_600_000_000),
        ("TIMESTAMP_NTZ", "0000-01-01 00:00:00", -719_528 * 86_400_000_000),
    ],
)
def test_years_that_python_lacks(kind: str, text: str, expected: int, others: int) -> None:
    """At once, and one by one beside an invalid record."""
    values = [f'{{"a": "{text}"}}'.encode(), *[b"{"] * others]
    found, bad = JsonDecoder(parse_ddl(f"a {kind}")).decode(pa.array(values, pa.binary()))
    assert bad.to_pylist() == [False, *[True] * others]
    number = pa.int32() if kind == "DATE" else pa.int64()
    assert found.field("a").cast(number)[0].as_py() == expected


@pytest.mark.parametrize("text", ["1e-999999999", '"1e-999999999"', r'"1e-\u00399999999"', "1e-2147483648"])
def test_an_exponent_that_ends_the_process_of_pyarrows_reader(text: str, processes: None) -> None:
    code = f"""
import pyarrow as pa
from spark_kafkalog.values.ddl import parse_ddl
from spark_kafkalog.values.from_json import JsonDecoder
values = [b'{{"a":7}}', {f'{{"a":{text}}}'.encode()!r}]
print(JsonDecoder(parse_ddl("a DECIMAL(5,2)")).decode(pa.array(values))[0].field("a").cast(pa.string()).to_pylist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "['7.00', '0.00']\n"), done.stderr


MALFORMED = [
    b"", b" ", b"{", b"}", b"[]", b"5", b'"x"', b"true", b"{}{}", b"{} {}", b"{},{}", b'{"a":1}{"a":2}', b'{"a":1},',
    b'{"a":1}]}\n{"v":[{"a":2}', b'{"a":1},"w":5', b'{"a":1}x', b'{"a":', b'{"a":1', b"{'a':1}", b"{a:1}",
    b'{"a":1,}', b'{"a":01}', b'{"a":"\xff"}', b"\xef\xbb\xbf{}", b"\x00", b'{"a":1}\x00', b"{\xc0\x80}",
    b'{"a"\n:\n', b"]}", b"],[", b'{"a":"', b'"}', b"null,null", b"\n", b"{}\n{}", b"//", b"{}//", b"\x1f\x8b",
    b'{"a":1}],"w":[5', b'{"a":1}],"w":[{}', b'{"a":1}],"w":["', b'{"a":1}],"v":[{"a":2}', b'{"a":1}], "w" : [ "x", {}',
    b'{"a":"\\"}', b'{"a":1]', b'{"a":[1}}',
]  # fmt: skip


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("value", MALFORMED)
def test_what_is_no_document_harms_no_other(value: bytes) -> None:
    around = [b'{"a":%d}' % n for n in range(40)]
    rows = [{"a": n} for n in range(40)]
    assert decode("a BIGINT", [*around, value, *around, None, value]) == [*rows, "corrupt", *rows, None, "corrupt"]


def test_pairs_of_malformed_values_do_not_make_up_for_each_other() -> None:
    """One half of a document here and the other half there; two documents here and none there."""
    for first in MALFORMED:
        for second in MALFORMED:
            values = [b'{"a":1}', first, second, b'{"a":2}']
            assert decode("a BIGINT", values) == [{"a": 1}, "corrupt", "corrupt", {"a": 2}]


def test_documents_over_many_lines() -> None:
    values: list[bytes | None] = [json.dumps({"a": n, "b": ["x"]}, indent=4).encode() for n in range(50)]
    assert decode("a BIGINT, b ARRAY<STRING>", values) == [{"a": n, "b": ["x"]} for n in range(50)]
    values[25:25] = [b"null", b" \r\n\t{\r\n}\n"]
    found = decode("a BIGINT, b ARRAY<STRING>", values)
    assert found[25:27] == [None, {"a": None, "b": None}]
    assert [row["a"] for row in found if row and row["a"] is not None] == list(range(50))


def test_deep_nesting() -> None:
    deep = b'{"z":' + b"[" * 200_000 + b"]" * 200_000 + b',"a":1}'
    open_only = b'{"z":' + b"[" * 200_000
    found = decode("a BIGINT", [b'{"a":1}', deep, open_only, b'{"a":2}'])
    assert [found[0], found[2], found[3]] == [{"a": 1}, "corrupt", {"a": 2}]


def nested(depth: int) -> bytes:
    return b'{"a":1,"z":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (nested(MOST_DEPTH), {"a": 1}),
        (nested(MOST_DEPTH + 1), "corrupt"),
        (nested(2000), "corrupt"),
        (nested(200_000), "corrupt"),
        (b'{"z":' * 1000 + b"1" + b"}" * 1000, "corrupt"),
        (b'{"a":1,"z":"' + rb"\"[" * 2000 + b'"}', {"a": 1}),
        (b'{"a":1,"z":[' + b"[]," * 2000 + b"{}]}", {"a": 1}),
    ],
)
def test_the_limit_of_depth_is_the_same_beside_any_other(value: bytes, expected: Any) -> None:
    assert decode("a BIGINT", [value]) == [expected]
    assert decode("a BIGINT", [value, None, b'{"a":2}']) == [expected, None, {"a": 2}]
    assert decode("a BIGINT", [value, b"{"]) == [expected, "corrupt"]


def test_text_of_a_document_as_deep_as_may_be() -> None:
    inner = MOST_DEPTH // 2
    text = '{"x":[' * (inner - 1) + "1.50" + "]}" * (inner - 1)
    assert decode("a STRING", [f'{{"a": {text}}}'.encode()]) == [{"a": text}]
    assert decode("a STRING", [f'{{"a": [[{text}]]}}'.encode()]) == ["corrupt"]


def test_a_batch_that_is_a_slice() -> None:
    values = pa.array([b"{", b'{"a":1}', None, b'{"a":2}', b"}"], pa.binary()).slice(1, 3)
    found, bad = JsonDecoder(parse_ddl("a INT")).decode(values)
    assert (found.to_pylist(), bad.to_pylist()) == ([{"a": 1}, None, {"a": 2}], [False] * 3)
    assert len(JsonDecoder(parse_ddl("a INT")).decode(values.slice(0, 0))[0]) == 0


@pytest.mark.usefixtures("divided")
def test_large_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_json, "MOST_BYTES", 1000)
    values: list[bytes | None] = [b'{"a":%d}' % n for n in range(1000)]
    assert decode("a INT", values) == [{"a": n} for n in range(1000)]


@pytest.mark.parametrize("every", [16, 1000])
def test_invalid_records_cost_few_calls_of_the_reader(every: int) -> None:
    """Each call takes as long as it takes to parse a hundred records one by one."""

    class Counting(JsonDecoder):
        calls = 0

        def _parse(self, values: pa.Array) -> pa.Array | None:
            self.calls += 1
            return super()._parse(values)

    values = [b"{" if n % every == 0 else b'{"a":%d,"z":"%s"}' % (n, b"x" * 100) for n in range(20_000)]
    decoder = Counting(parse_ddl("a BIGINT"))
    found, bad = decoder.decode(pa.array(values, pa.binary()))
    assert [at for at, each in enumerate(bad.to_pylist()) if each] == list(range(0, 20_000, every))
    assert found.field("a")[19_999].as_py() == 19_999
    assert decoder.calls < 100


SCHEMA = "a BIGINT, b STRING, c STRUCT<d: DOUBLE, e: ARRAY<INT>>, f BOOLEAN, g DECIMAL(10,2), h DATE"
scalars = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text() | st.just("2024-01-02")
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdefghx"), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=examples(300))
@given(st.lists(st.dictionaries(st.sampled_from("abcdefgh"), documents, max_size=8), min_size=1, max_size=20))
def test_at_once_and_one_by_one_agree(drawn: list[dict[str, Any]]) -> None:
    values: list[bytes | None] = [
        json.dumps(each, ensure_ascii=len(values_of(each)) % 2 == 0).encode(errors="surrogatepass") for each in drawn
    ]
    schema = parse_ddl(SCHEMA)
    together = decode(schema, values)
    slow = JsonDecoder(schema)
    slow._parse_options = None
    one_by_one, bad = slow.decode(pa.array(values, pa.binary()))
    expected = ["corrupt" if each else row for row, each in zip(one_by_one.to_pylist(), bad.to_pylist(), strict=True)]
    assert repr(together) == repr(expected)


TIMES = st.lists(
    st.sampled_from(
        ["2020-01-02", "0000-02-29", "T", " ", "03", ":04", ":05", "0304", ".6", ".678901", "Z", "5", "-", ","]
    )
    | st.sampled_from(["+02", "+0200", "-02:00", "+18:00", "+18:01", "+02:60", "+23:59"]),
    max_size=7,
).map("".join)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_at_once_and_one_by_one_agree(kind: str) -> None:
    decoder = JsonDecoder(parse_ddl(f"a {kind}"))

    @settings(max_examples=examples(300))
    @given(st.sampled_from(["", "2020-01-02", "2020-01-02T03:04", "2020-01-02 03:04:05"]), TIMES)
    def check(begin: str, rest: str) -> None:
        value = json.dumps({"a": begin + rest}).encode()
        alone, bad = decoder.decode(pa.array([value], pa.binary()))
        beside, bad_beside = decoder.decode(pa.array([value, b"{"], pa.binary()))
        assert (bad[0], alone[0]) == (bad_beside[0], beside[0])

    check()


PIECES = [b'{"a":1}', b"{}", b'],"w":[', b'}],"w":[{', b"[", b"]", b",", b'"', b"5", b'{"z":[', b"}", b"\n"]
"""Of documents, and of what they are put into."""


def values_of(document: dict[str, Any]) -> str:
    return repr(sorted(document))


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.none()
        | st.binary(max_size=40)
        | st.text('{}[]":,ab01 \n\\', max_size=20).map(str.encode)
        | st.lists(st.sampled_from(PIECES), max_size=5).map(b"".join)
        | documents.map(lambda each: json.dumps(each).encode()),
        max_size=30,
    )
)
def test_nothing_raises(values: list[bytes | None]) -> None:
    found = decode(SCHEMA, values)
    for value, row in zip(values, found, strict=True):
        if value is None:
            assert row is None
        elif row != "corrupt" and row is not None:
            assert isinstance(json.loads(value), dict)
        if value is not None and row == "corrupt":
            alone = decode(SCHEMA, [value])
            assert alone == ["corrupt"]


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("a BINARY", "BINARY cannot be read from JSON; read it as STRING"),
        ("a STRUCT<b: BINARY>", "BINARY cannot be read from JSON"),
        ("a MAP<INT, INT>", "keys of maps are STRING"),
        ("", "a field is needed"),
    ],
)
def test_schemas_that_json_cannot_fill(ddl: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JsonDecoder(parse_ddl(ddl) if ddl else StructType())

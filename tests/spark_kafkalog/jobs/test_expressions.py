"""Test the jobs' expressions in Spark against Python's own engine, JSON parser and arithmetic."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_kafkalog.jobs import access_log, json_lines, lookup, rejected
from spark_kafkalog.jobs.arguments import UsageError
from tests.spark_kafkalog.jobs import web

pytestmark = pytest.mark.spark


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Java's. Possessive quantifiers of groups are wrong in Python before 3.11.5 (gh-101955)."""
    return re.compile(pattern if sys.version_info >= (3, 11, 5) else re.sub(r"(?<=[+*?])\+", "", pattern))


LINE = compiled(access_log.LINE)
REQUEST = compiled(access_log.REQUEST)
NASTY: list[bytes | None] = [
    None,
    b"",
    b"\n",
    b"\x16\x03\x01\x02\x00",
    b"\xff\xfe\x00",
    b"h i u [17/May/2015:10:05:03 +0000] \x01 \x01 \x01 \x01 \x01",
    b"\x01\x01\x01\x01\x01\x01\x01\x01",
    b'h - - [17/May/2015:10:05:03 +0000] "-" 408 -',
    b'h - - [17/May/2015:10:05:03 +0000] "" 400 0 "-" "-"',
    b'h - - [17/May/2015:10:05:03 +0000] "\\x16\\x03\\x01" 400 226 "-" "-"',
    b'h - - [31/Feb/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1',
    b'h - - [17/Foo/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1',
    b'h - - [] "GET / HTTP/1.1" 200 1',
    b'h - - [10/May/+294300:13:55:36 +0000] "GET / HTTP/1.1" 200 1',
    b'h - - [10/May/-2015:13:55:36 +0000] "GET / HTTP/1.1" 200 1',
    b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 99999999999999999999999',
    b'h - jo [x] e [17/May/2015:10:05:03 +0000] "GET /%ff?a#b HTTP/1.1" 200 1 "\\"" "caf\xc3\xa9 \xff"\r\n',
    b'h - - [17/May/2015:10:05:03 +0000] "GET http://a.b?c HTTP/1.1" 999 0 "-" "-" "1.2.3.4" 0.1',
]


def parsed(spark: SparkSession, lines: Sequence[bytes | None]) -> list[Row]:
    frame = spark.createDataFrame(list(enumerate(lines)), "n INT, value BINARY")
    rows = frame.select("n", access_log.parsed(F.col("value")).alias("request")).orderBy("n").collect()
    return [row.request for row in rows]


def test_spark_finds_in_real_lines_what_stands_there(spark: SparkSession) -> None:
    lines = web.access_lines()
    for line, request in zip(lines, parsed(spark, lines), strict=True):
        seen = web.seen(line)
        assert request.reason is None
        assert (request.host, request.method, request.path, request.status, request.bytes) == (
            *(seen.host, seen.method, seen.path, seen.status, seen.size),
        )
        assert request.time.timestamp() == seen.time.timestamp() or request.time == seen.time.replace(tzinfo=None)
        assert request.user is None
        assert (request.referer is None) == ('"-" "' in line.decode())


def python_reason(line: bytes | None) -> str | None:
    """By Python's engine and datetime."""
    if line is None:
        return access_log.NO_VALUE
    text = line.decode(errors="replace")
    found = LINE.match(text)
    if found is None or "\x01" in text:
        return access_log.NO_LINE
    try:
        datetime.strptime(found[4], "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return access_log.NO_TIME
    return None if REQUEST.match(found[5]) else access_log.NO_REQUEST


def test_spark_and_python_reject_the_same_lines(spark: SparkSession) -> None:
    """Whatever a line holds, there is no exception."""
    lines = [*NASTY, *(line[:cut] for line in web.access_lines()[:3] for cut in range(0, len(line), 7))]
    requests = parsed(spark, lines)
    assert [request.reason for request in requests] == [python_reason(line) for line in lines]
    assert {request.reason for request in requests} == {None, *access_log.REASONS}
    for request in requests:
        if request.reason is not None:
            assert all(request[name] is None for name in access_log.FIELDS)


def test_fields(spark: SparkSession) -> None:
    odd, absolute = parsed(spark, NASTY[-2:])
    assert odd.user == "jo [x] e"
    assert (odd.target, odd.path, odd.referer, odd.agent) == ("/%ff?a#b", "/%ff", '\\"', "café \ufffd")
    assert (absolute.path, absolute.status, absolute.referer) == ("/", 999, None)
    (huge,) = parsed(spark, NASTY[-3:-2])
    assert huge.reason is None
    assert huge.bytes is None


@pytest.mark.exhaustive
def test_lines_of_any_length_do_not_overflow_a_stack(spark: SparkSession) -> None:
    start = b'h - - [17/May/2015:10:05:03 +0000] "'
    lines = [
        start + b"\\x16" * 300_000 + b'" 400 0',
        start + b"GET /" + b"a" * 1_000_000 + b' HTTP/1.1" 200 0 "-" "' + b'\\"' * 300_000 + b'"',
        b"a" * 1_000_000,
        b"a b c [" * 2_000,
    ]
    reasons = [request.reason for request in parsed(spark, lines)]
    assert reasons == [access_log.NO_REQUEST, None, access_log.NO_LINE, access_log.NO_LINE]


def is_object(text: str) -> bool:
    """By Python's parser, which is strict but for the constants that it adds."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) < len(found):
            raise ValueError("a name twice")
        return dict(found)

    try:
        return isinstance(json.loads(text, parse_constant=refuse, object_pairs_hook=pairs), dict)
    except ValueError:
        return False


JSON_TEXTS = [
    *('{"a":1}', " { } \n", '{"a":{"b":[1,2]}}', '{"n":1.10,"m":123456789012345678901234567890123,"e":1e2}'),
    *('{"a":"}"}', '{"é":"\\u00e9"}', '{"a":1} x', '{"a":1}{"b":2}', '{"a":1},{"b":2}', '{"a":1}]', '{"a":1}]}'),
    *("[1]", "1", '"a"', "null", "", " ", "{", "}", '{"a":1', "{'a':1}", '{"a":NaN}', '{"a":1,"a":2}', '{"a":01}'),
    *('{"a":1,}', "{a:1}", '{"lookup2":1}', '{"a":"\\x"}', '{"a":"\t"}', "\x00", '{"a":1}// c'),
]


def test_json_objects_are_told_and_added_to_as_python_does(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(n, text.encode()) for n, text in enumerate(JSON_TEXTS)], "n INT, value BINARY")
    value = F.col("value")
    added = F.struct(F.struct(F.lit(1).alias("x"), F.lit(None).cast("string").alias("y")).alias("lookup"))
    rows = frame.select(
        "n", json_lines.reason(value, "lookup").alias("reason"), json_lines.with_members(value, added).alias("more")
    )
    for row in rows.collect():
        text = JSON_TEXTS[row.n]
        assert (row.reason is None) == is_object(text), text
        if row.reason is None:
            assert json.loads(row.more) == json.loads(text) | {"lookup": {"x": 1, "y": None}}
            assert row.more.startswith(text.rstrip()[:-1]), "its own text is kept"


def test_json_reasons_and_members(spark: SparkSession) -> None:
    texts = [None, b'{"lookup":null}', b'{"a":{"lookup":1},"b":[{"c":404}]}', b"\xff"]
    texts += [b'{"a":"caf\xe9"}', b'{"lookup":1,"lookup":2}', b'{"a":"\\ud800"}']
    frame = spark.createDataFrame(list(enumerate(texts)), "n INT, value BINARY").orderBy("n")
    value = F.col("value")
    rows = frame.select(json_lines.reason(value, "lookup", "source"), json_lines.member(value, "$.b[0].c")).collect()
    assert [tuple(row) for row in rows] == [
        (json_lines.NO_VALUE, None),
        (json_lines.HAS_MEMBER, None),
        (None, "404"),
        *[(json_lines.NO_OBJECT, None)] * 4,
    ]


def test_status_classes_and_paths(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(200, "/a?b"), (404, "https://h:1/a/#?"), (599, "?"), (100, "*")], "s INT, t STRING")
    rows = frame.select(access_log.status_class(F.col("s")), access_log.path_of(F.col("t"))).collect()
    assert [tuple(row) for row in rows] == [("2xx", "/a"), ("4xx", "/a/"), ("5xx", "/"), ("1xx", "*")]


def read_lookup(spark: SparkSession, path: Any, text: str, column: str | None = None) -> Any:
    path.write_text(text)
    return lookup.read(spark, str(path), "csv", column)


def test_lookup_finds_the_longest_prefix_or_the_equal_key(spark: SparkSession, tmp_path: Any) -> None:
    table = read_lookup(
        spark, tmp_path / "t.csv", "section,prefix,owner\nall,/,a\nblog,/blog,b\ntags,/blog/t,\n", "prefix"
    )
    paths = ["/blog/tags", "/blog", "/x", "x", "", None, "/blog/t"]
    records = spark.createDataFrame([(n, path) for n, path in enumerate(paths)], "n INT, path STRING")

    def sections(match: str) -> list[str | None]:
        rows = lookup.joined(records, table, F.col("path"), match, "found").orderBy("n").collect()
        assert [row.path for row in rows] == paths
        return [None if row.found is None else row.found.section for row in rows]

    assert sections(lookup.PREFIX) == ["tags", "blog", "all", None, None, None, "tags"]
    assert sections(lookup.EXACT) == [None, "blog", None, None, None, None, "tags"]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", None, "has no columns"),
        ("a,b\n1,x\n2,y\n1,z\n", None, "has 2 rows for '1'"),
        ("a,b\n", None, "has no rows"),
        ("a\n1\n", None, "no column beside 'a'"),
        ("a,b\n1,2\n", "c", "has no column 'c', but a, b"),
        ("a,b\n,2\n", None, "a row without a key"),
    ],
)
def test_lookups_that_cannot_be_used(
    spark: SparkSession, tmp_path: Any, text: str, column: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read_lookup(spark, tmp_path / "t.csv", text, column)


def test_lookups_with_any_names_of_columns(spark: SparkSession, tmp_path: Any) -> None:
    table = read_lookup(spark, tmp_path / "t.csv", "k`y,a`b,c.d\n1,x,y\n")
    assert [(row.lookup_key, row.lookup_entry.asDict()) for row in table.collect()] == [("1", {"a`b": "x", "c.d": "y"})]


def test_rejected_are_described() -> None:
    assert rejected.described({"a": 1000, "b": 2, "lines": 9}, ["a", "b", "c"]) == "1,002 rejected (a: 1,000; b: 2)"
    assert rejected.described({}, ["a"]) == "0 rejected"

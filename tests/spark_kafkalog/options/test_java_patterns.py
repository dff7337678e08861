"""Test that subscribePattern finds Java's expressions anywhere in a name, as Spark's own source does."""

from __future__ import annotations

import pytest

from spark_kafkalog.options.java_patterns import PatternError, compile_java

NAMES = ["orders", "orders-eu", "Orders", "my.orders", "x1_y2", "a+b", "42"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders", "orders-eu", "my.orders"]),
        ("^orders$", ["orders"]),
        (r"\Aorders\z", ["orders"]),
        (r"^orders\Z", ["orders"]),
        ("(?i)^orders", ["orders", "orders-eu", "Orders"]),
        ("^(?i:ORDERS)$", ["orders", "Orders"]),
        ("(?iu)^ORDERS$", ["orders", "Orders"]),
        (r"^\p{Lu}", ["Orders"]),
        (r"^\p{Upper}\p{javaLowerCase}++$", ["Orders"]),
        (r"^[\p{L}\p{Pd}]+$", ["orders", "orders-eu", "Orders"]),
        (r"^\P{L}+$", ["42"]),
        (r"^\pN+$", ["42"]),
        (r"^\p{gc=Nd}+$", ["42"]),
        (r"\p{Punct}", ["orders-eu", "my.orders", "x1_y2"]),
        (r"\p{Space}", []),
        (r"\Qmy.\E", ["my.orders"]),
        (r"\Q.", ["my.orders"]),
        ("^(?>orders)$", ["orders"]),
        ("^orders?+$", ["orders"]),
        ("^[a-z]{6}$", ["orders"]),
        ("^[a-z]{6,}+$", ["orders"]),
        ("^(?<first>[a-z])[0-9]_", ["x1_y2"]),
        (r"(?<one>[a-z])\d_(?!\k<one>)", ["x1_y2"]),
        ("^(?:my|your)[.]", ["my.orders"]),
        ("^[^a-z]+$", ["42"]),
        (r"^[\d]+$", ["42"]),
        (r"^(orders|\w+)$", ["orders", "Orders", "x1_y2", "42"]),
        ("(?<=my.)orders", ["my.orders"]),
        ("^[a-z&&[^o]]", ["my.orders", "x1_y2"]),
        ("^[m[x-z]]", ["my.orders", "x1_y2"]),
    ],
)
def test_java_expressions(pattern: str, found: list[str]) -> None:
    is_found = compile_java(pattern)
    assert [name for name in NAMES if name != "a+b" and is_found(name)] == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "is no regular expression"),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("a{x}", "{ without a number of repetitions"),
        ("a{,3}", "{ without a number of repetitions"),
        ("[^a&&b]", "depends on Java's version"),
        ("orders(?i)", r"write \(\?i:…\)"),
        ("(?-i)orders", r"write \(\?-i:…\)"),
        ("(?d)x", "the flag d"),
        ("(?x)a b", "the flag x"),
        (r"\p{Cyrillic}", "the property Cyrillic; name the characters"),
        (r"\G", r"\\G"),
        (r"\X", r"\\X"),
        (r"\x{41}", r"\\x"),
        ("(?P<a>x)", r"the group \(\?P<"),
        (r"\y", r"\\y"),
        ("(?<=a*)b", "fixed-width"),
    ],
)
def test_what_cannot_be_translated_is_said(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        compile_java(pattern)

"""Tests of regular expressions over topic names: matches, refusals, and bounded time."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from contextlib import suppress

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.kip848.topics.topic_regex import MAX_BYTES, MAX_SECONDS, matching
from kafkalog.protocol.errors import InvalidRegularExpressionError

# Expressions in which Python's syntax and RE2's are the same.
_atoms = st.sampled_from(
    ["a", "b", "_", "\\.", ".", "[ab]", "[^a-c]", "\\d", "\\W", "-", "^", "$", "\\b", "\\B", "(?:)", "\\A"]
)
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(text=_expressions, names=st.lists(st.text("abc1._-", min_size=1, max_size=6), max_size=8))
def test_the_same_names_match_as_with_python(text: str, names: list[str]) -> None:
    assert matching(text, names) == [name for name in names if re.fullmatch(text, name)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders-.*", ["orders-1"]),
        ("^(?:orders|audit).*$", ["orders-1", "audit"]),
        ("(?i)AUDIT", ["audit"]),
        ("(?i:AU)DIT", []),
        ("(?P<name>a)udit|(?<other>x)", ["audit"]),
        ("\\Qa.b\\E", ["a.b"]),
        ("a\\x2eb|\\x{61}.b", ["a.b", "a_b"]),
        ("a[[:punct:]]b", ["a.b", "a_b"]),
        ("\\pL\\P{L}\\p{Ll}", ["a.b", "a_b"]),
        ("a[\\w.]b", ["a.b", "a_b"]),
        ("a\\056b", ["a.b"]),
        ("a{,2}", []),
        ("(?s-i:a.b)(?m)$", ["a.b", "a_b"]),
        ("", []),
        ("orders", []),
        ("é*audit", ["audit"]),
    ],
)
def test_syntax(text: str, expected: list[str]) -> None:
    names = ["orders-1", "audit", "a.b", "a_b"]
    assert matching(text, names) == expected


@pytest.mark.parametrize(
    "text",
    ["(", ")", "a)", "[", "[b-a]", "*", "a**", "a{1001}", "a{2,1}", "\\", "\\1", "(?=a)", "(?!a)",
     "(?<=a)b", "(?<!a)b", "(?i-)a", "\\p{Nonsense}", "[[:nonsense:]]", "(?P<>x)",
     "\\x{110000}", "(?z)a", "\\k<a>",
     "(((a{100}){100}){100}){100}", "(" * 5000, "(?" , "\\p{L", "[\\"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression"):
        matching(text, ["orders-1"])


def test_what_a_backtracking_engine_would_not_finish() -> None:
    names = ["a" * 200 + "-", "a" * 200]
    assert matching("(a+)+", names) == names[1:]
    assert matching("(a|aa|a?)*b?", names) == names[1:]
    # Its deterministic states are as many as the last 300 characters can be.
    draw = random.Random(1)
    names = ["".join(draw.choices("ab", k=249)) for _ in range(100)]
    assert matching("(a|b)*a(a|b){200}", names) == [name for name in names if name[-201] == "a"]


@pytest.mark.parametrize("text", ["\\pL{1000}", "(?i)[\\pL\\pN]{500}", "a" * (MAX_BYTES + 1)])
def test_what_takes_too_much_memory_is_refused(text: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="too large"):
        matching(text, ["orders-1"])


def test_what_takes_too_long_is_refused() -> None:
    used = itertools.count(step=MAX_SECONDS / 10)
    assert matching("a", ["a"] * 9, lambda: next(used)) == ["a"] * 9
    with pytest.raises(InvalidRegularExpressionError, match="takes too long"):
        matching("a", itertools.repeat("a"), lambda: next(used))


def test_what_was_matched_takes_no_room() -> None:
    # Canary: the library keeps expressions in this cache of its own, and gives them back when it is told to.
    kept = re2._Regexp._make.cache_info
    re2.compile("a")
    assert kept().currsize
    assert matching("(a|b)*a(a|b){20}", ["a" * 30]) == ["a" * 30]
    assert not kept().currsize
    with pytest.raises(InvalidRegularExpressionError):
        matching("(", [])
    assert not kept().currsize


@pytest.mark.usefixtures("processes")
def test_the_library_is_imported_when_the_first_expression_comes() -> None:
    program = "import sys, broker.server; assert 're2' not in sys.modules, 're2 was imported'"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=90)


@given(text=st.text("ab().*+?{}[]|\\^$1,-:PQEpi<>=!", max_size=20))
def test_anything_is_matched_or_refused(text: str) -> None:
    with suppress(InvalidRegularExpressionError):
        matching(text, ["abab", "a.b", "orders-1"])

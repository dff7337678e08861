"""Regular expressions over topic names: what they match, what is refused, and that nothing takes for ever."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.modern.regex import compile_regex
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
    compiled = compile_regex(text)
    assert compiled.matching(names) == [name for name in names if re.fullmatch(text, name)]


@pytest.mark.parametrize(
    ("text", "matching"),
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
def test_syntax(text: str, matching: list[str]) -> None:
    names = ["orders-1", "audit", "a.b", "a_b"]
    assert compile_regex(text).matching(names) == matching


@pytest.mark.parametrize(
    "text",
    ["(", ")", "a)", "[", "[b-a]", "*", "a**", "a{1001}", "a{2,1}", "\\", "\\1", "(?=a)", "(?!a)",
     "(?<=a)b", "(?<!a)b", "(?i-)a", "\\p{Nonsense}", "[[:nonsense:]]", "(?P<a>x)(?P<a>y)", "(?P<>x)",
     "\\x{110000}", "(?z)a", "\\k<a>",
     "(((a{100}){100}){100}){100}", "(" * 5000, "(?" , "\\p{L", "[\\"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression"):
        compile_regex(text)


def test_what_a_backtracking_engine_would_not_finish() -> None:
    names = ["a" * 200 + "-", "a" * 200]
    assert compile_regex("(a+)+").matching(names) == names[1:]
    assert compile_regex("(a|aa|a?)*b?").matching(names) == names[1:]
    assert compile_regex("((((){1000}){1000}){1000}){1000}" + "a*").matching(names) == names[1:]


def test_too_many_steps() -> None:
    # Its deterministic states are as many as the last 300 characters can be.
    draw = random.Random(1)
    names = ["".join(draw.choices("ab", k=249)) for _ in range(100)]
    with pytest.raises(InvalidRegularExpressionError, match="too many steps"):
        compile_regex("(a|b)*a(a|b){300}").matching(names)


def test_what_was_matched_takes_no_room() -> None:
    # An expression is kept for the members that bring it again; the states of its automaton may be large.
    compiled = compile_regex("(a|b)*a(a|b){20}")
    draw = random.Random(1)
    assert compiled.matching(["a" * 30, *("".join(draw.choices("ab", k=30)) for _ in range(10))])[0] == "a" * 30
    assert not compiled._steps
    assert compiled.matches("a" * 30)
    assert not compiled._steps


@given(text=st.text("ab().*+?{}[]|\\^$1,-:PQEpi<>=!", max_size=20))
def test_anything_is_matched_or_refused(text: str) -> None:
    try:
        compiled = compile_regex(text)
    except InvalidRegularExpressionError:
        return
    compiled.matching(["abab", "a.b", "orders-1"])

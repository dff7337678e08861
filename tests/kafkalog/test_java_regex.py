"""Expressions of Java select the same topics here as in Java, or are refused."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kafkalog.java_regex import UnreadableExpressionError, compile_java
from peers import require
from peers.toolchains import java

FEW = (
    *"abc-", "Ab", "ab", "abc", "aab", "a1", "b9", "a.b", "a-b", "abab", "words", "Words", "words2", "words.old",
    "__consumer_offsets",
)  # fmt: skip
NAMES = (*FEW, *"dzABZ09_.", "aB", "a_b", "aabb", "zz-9", "A.B")
READ = {
    r"\p{Alpha}+": "a b c Ab ab abc aab abab words Words",
    r"[\p{Lower}\d]+": "a b c ab abc aab a1 b9 abab words words2",
    r"\P{Punct}+": "a b c Ab ab abc aab a1 b9 abab words Words words2",
    r"[a-z&&[^b]]+": "a c words",
    r"[a-z&&b-d]": "b c",
    r"[a[b-d]]": "a b c",
    r"\pL\pN": "a1 b9",
    r"\p{Lu}\p{IsLl}+": "Ab Words",
    r"\p{Pc}+\w+": "__consumer_offsets",
    r"\Qa.b\E|a\-b": "a.b a-b",
    r"(?<x>a)\k<x>b": "aab",
    r"(ab)\1": "abab",
    r"(?i)words[^\d]*": "words Words words.old",
    r"(?i)[a-b]+": "a b Ab ab aab abab",
    r"(?iu)WORDS": "words Words",
    r"(?i:W)or(?-i:ds)": "words Words",
    r"(?i:a(?-i:b)|C)+": "c Ab ab abc abab",
    r"(?:(?i:[a-b])B?)+|c": "a b c Ab ab aab abab",
    r"\p{javaUpperCase}\p{javaLetterOrDigit}*": "Ab Words",
    r"[\h.\p{javaDigit}]*|\H-\R?": "",
    r"\Aw.*\z": "words words2 words.old",
    r"\x61\u0062": "ab",
    r"a++b": "ab aab",
    r"[^\W_]+": "a b c Ab ab abc aab a1 b9 abab words Words words2",
    r"[a-]+": "a -",
}
"""Expressions, and the names of `FEW` that they match."""
REFUSED = (
    r"\p{Alnum}+\.\p{javaMirrored}",
    r"(?i:\p{Lu})",
    r"(?-i)a",
    r"(?P<x>a)",
    r"[^a&&b]",
    r"[^a[b]]",
    r"[a-z&&[^b]c]",
    r"[]a]",
    r"(?i)\p{Lower}",
    r"(?x)a b",
    r"a(?i)b",
    r"\p{InGreek}",
    r"\N{DIGIT ONE}",
    r"a{,2}",
    r"a{b",
    r"[a",
    r"[a-\d]",
    r"(a",
    "\\",
    "[" * 100_000,
)
PARTS = (
    "a", "b", "z", ".", "-", "_", "1", "|", "*", "+", "?", "(", ")", "(?:", "(?!", "(?=", "(?<=", "(?<n>", "[", "]",
    "[^", "&&", "&", "-", "^", "$", "a-z", "A-Z", "0-9", "[a-c]", "[^b]", "{2}", "{1,2}", "{", "}", r"\d", r"\D",
    r"\w", r"\W", r"\s", r"\S", r"\b", r"\.", r"\-", r"\p{Alpha}", r"\P{Lu}", r"\p{Punct}", r"\pL", r"\1", r"\k<n>",
    r"\Qa.\E", r"\x61", r"\u0062", r"\z", r"\Z", r"\A", r"\e", r"\t", ",", "(?i)", "(?s)", "[a-z&&[^b]]", "[a[b-d]]",
    "(?i:", "(?-i:", "(?i-s:", "(?iu)", "(?m)", r"\h", r"\V", r"\R", r"\p{javaLetter}", r"\p{LC}",
    r"\p{javaWhitespace}", r"\p{script=Latin}", r"\p{IsHex_Digit}", "\\", "#", "ä", " ",
)  # fmt: skip
MATCHER = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.regex.*;

public class Matcher {
    public static void main(String[] names) throws IOException {
        BufferedReader reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line; (line = reader.readLine()) != null; ) {
            try {
                Pattern pattern = Pattern.compile(line);
                for (String name : names) out.append(pattern.matcher(name).matches() ? '1' : '0');
            } catch (PatternSyntaxException error) {
                out.append('!');
            }
            out.append('\\n');
        }
        System.out.print(out);
    }
}
"""


def matched_here(expression: str) -> set[str] | None:
    """Return the names that match; None if the expression is refused."""
    try:
        pattern = compile_java(expression)
    except UnreadableExpressionError:
        return None
    return {name for name in NAMES if pattern.fullmatch(name)}


def matched_in_java(expressions: Iterable[str], directory: Path) -> list[set[str] | None]:
    """Return the names that match each expression in Java; None where Java refuses it."""
    source = directory / "Matcher.java"
    source.write_text(MATCHER)
    said = java.run_java([], str(source), NAMES, stdin="".join(f"{each}\n" for each in expressions))
    return [
        None if line == "!" else {name for name, bit in zip(NAMES, line, strict=True) if bit == "1"}
        for line in said.splitlines()
    ]


def random_expressions() -> list[str]:
    chance = random.Random(1)
    return ["".join(chance.choices(PARTS, k=chance.randint(1, 7))) for _ in range(20_000)]


@pytest.mark.parametrize(("expression", "names"), READ.items(), ids=READ)
def test_what_is_read_matches_what_it_matches_in_java(expression: str, names: str) -> None:
    pattern = compile_java(expression)
    assert [name for name in FEW if pattern.fullmatch(name)] == names.split()


@pytest.mark.parametrize("expression", REFUSED, ids=lambda each: each[:20])
def test_what_is_refused(expression: str) -> None:
    with pytest.raises(UnreadableExpressionError):
        compile_java(expression)


@pytest.mark.parametrize("expression", [r"\p{Nonsense}", "[a-z&&", "(?P<x>a)"])
def test_what_cannot_be_read_is_named(expression: str) -> None:
    with pytest.raises(UnreadableExpressionError, match=re.escape(expression[:2]) + "|Nonsense|early"):
        compile_java(expression)


@pytest.mark.peer
@pytest.mark.usefixtures("processes")
def test_java_matches_the_same_names(tmp_path: Path) -> None:
    require(java.missing())
    expressions = [each for each in (*READ, *REFUSED, *random_expressions()) if len(each) < 1000]
    found = [matched_here(each) for each in expressions]
    expected = matched_in_java(expressions, tmp_path)
    different = [
        (expression, here, there)
        for expression, here, there in zip(expressions, found, expected, strict=True)
        if here is not None and here != there
    ]
    assert different == []
    assert sum(each is not None for each in found) > len(expressions) / 10

"""Test that docstrings and comments keep the conventions that no rule of ruff checks."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "kafkalog", "spark_kafkalog", "pyspark_kafkalog", "benchmarks", "conformance", "peers", "tools")
DOUBLE = re.compile(r"(?<!`)``[^`]")


def prose(source: str) -> list[tuple[int, str]]:
    """Return the comments and docstrings of a module, each with the number of its first line."""
    found = []
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            found.append((token.start[0], token.string))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            # A string that begins a statement is a docstring, or documents an attribute.
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_names_stand_in_single_backticks(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in prose(path.read_text())
        if DOUBLE.search(text)
    ]
    assert found == []


def test_prose_is_found() -> None:
    source = '"""A ``b``."""\nx = "``"  # ``c``\n"""Of x."""\n\n\ndef f():\n    """D."""\n'
    assert [line for line, _ in prose(source)] == [1, 2, 3, 7]

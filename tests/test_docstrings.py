"""Test that docstrings and comments keep the conventions that no rule of ruff checks."""

from __future__ import annotations

import ast
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


def has_string_fields(node: ast.ClassDef) -> bool:
    """Return whether strings below the fields document them: in a dataclass, a NamedTuple and a Protocol."""
    marks = [*node.bases, *(each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)]
    return any(ast.unparse(mark).rpartition(".")[2] in ("dataclass", "NamedTuple", "Protocol") for mark in marks)


def describes_fields(source: str) -> list[str]:
    """Return the classes with such fields whose docstring has a section `Attributes:` or `Args:`."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and has_string_fields(node)
        if re.search(r"^(Attributes|Args):$", ast.get_docstring(node) or "", re.MULTILINE)
    ]


@pytest.mark.parametrize("package", ["broker", "kafkalog", "spark_kafkalog"])
def test_strings_below_fields_document_them(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in describes_fields(path.read_text())
    ]
    assert found == []


def test_sections_about_fields_are_found() -> None:
    section = '    """D.\n\n    Attributes:\n        a: x.\n    """\n    a: int\n'
    heads = ["@dataclass\nclass A:", "@dataclasses.dataclass(slots=True)\nclass B:", "class C(NamedTuple):"]
    heads += ["class D(Protocol):", "class E:"]
    found = [describes_fields(f"{head}\n{section}") for head in heads]
    assert found == [["A"], ["B"], ["C"], ["D"], []]
    assert describes_fields('@dataclass\nclass F:\n    """D."""\n    a: int\n    """X."""\n') == []

"""Test that docstrings and comments keep the conventions that no rule of ruff checks."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.packages import PACKAGES
from tools.reference.api import list_sections

ROOT = Path(__file__).parents[1]
DOUBLE = re.compile(r"(?<!`)``[^`]")
HEADLESS = re.compile(r'[rR]?"""(?:How|For how|Until when|What|When|Where|Whether|Which|Who|Whose|Why)\b')
"""A docstring that begins with a clause that depends on no verb."""
ERROR_IN_PROSE = re.compile(
    r"\b[Rr]aises?\s+(?:(?:an?|any|the)\s+)?`?[\w.]*(?:Error|Exception)\b"
    r"|(?:^|[.;]\s)\s*`?[\w.]*(?:Error|Exception)`?\s+(?:if|for|where|unless|names)\b",
    re.MULTILINE,
)
"""`Raises SomeError`, or `Return it; SomeError if it is damaged`."""
ENTRY = re.compile(r"    [A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*: \S")
"""The first line of an entry of a section `Raises:`: names of errors, and when they are raised."""


def prose(source: str, sought: re.Pattern[str] | None = None) -> list[tuple[int, str]]:
    """Return the comments and docstrings of a module, each with the number of its first line.

    A module without anything that matches `sought` has none, for the tokens of 2,000 modules take long.
    """
    found: list[tuple[int, str]] = []
    if sought is not None and not sought.search(source):
        return found
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            found.append((token.start[0], token.string))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            # A string that begins a statement is a docstring, or documents an attribute.
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return found


def found_in(package: str, look: Callable[[str], Iterable[object]]) -> list[str]:
    """Return what `look` finds in the source of each module of a package, behind the module's path."""
    return [
        f"{path.relative_to(ROOT)}:{found}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for found in look(path.read_text())
    ]


def doubled_backticks(source: str) -> list[int]:
    """Return the lines of comments and docstrings with names in double backticks."""
    return [line for line, text in prose(source, DOUBLE) if DOUBLE.search(text)]


@pytest.mark.parametrize("package", PACKAGES)
def test_names_stand_in_single_backticks(package: str) -> None:
    assert found_in(package, doubled_backticks) == []


def headless(source: str) -> list[int]:
    """Return the lines of docstrings that begin neither with a noun nor with a verb."""
    return [line for line, text in prose(source, HEADLESS) if HEADLESS.match(text)]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_a_noun_or_a_verb(package: str) -> None:
    assert found_in(package, headless) == []


def test_headless_docstrings_are_found() -> None:
    source = '"""What it is."""\n# When all is over.\nx = 1\n"""Whether it is."""\n"""Return what it is."""\n'
    assert headless(source) == [1, 4]


def test_prose_is_found() -> None:
    source = '"""A ``b``."""\nx = "``"  # ``c``\n"""Of x."""\n\n\ndef f():\n    """D."""\n'
    assert [line for line, _ in prose(source)] == [1, 2, 3, 7]
    assert doubled_backticks(source) == [1, 2]


def function_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of functions and methods, each with the number of its first line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


def split_raises(docstring: str) -> tuple[str, list[str] | None]:
    """Return the text outside of the section `Raises:`, and the section's lines; None without a section."""
    outside: list[str] = []
    section: list[str] | None = None
    within = False
    for line in docstring.splitlines():
        if line == "Raises:":
            section, within = [], True
        elif within and section is not None and (not line or line.startswith(" ")):
            section.append(line)
        else:
            within = False
            outside.append(line)
    return "\n".join(outside), section


def faults(docstring: str) -> list[str]:
    """Return what is wrong with the way in which a docstring names errors."""
    outside, section = split_raises(docstring)
    found = [f"in prose: {' '.join(each.split())}" for each in ERROR_IN_PROSE.findall(outside)]
    if section is not None:
        entries = [line for line in section if re.match(r" {4}\S", line)]
        found += [f"not `SomeError: the condition`: {line.strip()}" for line in entries if not ENTRY.match(line)]
        found += [] if entries else ["an empty section"]
    return found


def faults_in(source: str) -> list[str]:
    """Return the faults of a module's docstrings, each with its line."""
    if "Raises:" not in source and not ERROR_IN_PROSE.search(source):
        return []
    return [f"{line}: {fault}" for line, docstring in function_docstrings(source) for fault in faults(docstring)]


@pytest.mark.parametrize("package", PACKAGES)
def test_errors_stand_in_raises_sections(package: str) -> None:
    assert found_in(package, faults_in) == []


@pytest.mark.parametrize(
    "docstring",
    [
        "Read it. Raises ValueError.",
        "Read it.\n\nRaises `a.SomeError` where it is damaged.",
        "Read it; raise\nSomeException if it is damaged.",
        "Read it.\n\nRaises any `RecordsError`.",
        "Raise ValueError unless it is right.",
        "Read it; `ValueError` if it is damaged.",
        "Read it.\n\nSomeError for a damaged one.",
        "Read it.\n\nRaises:\n    ValueError: It is wrong.\n\nIt raises KeyError, too.",
        "Read it.\n\nRaises:\n    ValueError",
        "Read it.\n\nRaises:\n    `ValueError`: It is wrong.",
        "Read it.\n\nRaises:\n\nArgs:\n    at: The place.",
    ],
)
def test_errors_elsewhere_are_found(docstring: str) -> None:
    assert len(faults(docstring)) == 1


@pytest.mark.parametrize(
    "docstring",
    [
        "Read it.",
        "Read it. Raises as `poll` does.",
        "Raise the number of partitions; an outcome may be SomeError.",
        "Read it.\n\nRaises:\n    ValueError, a.SomeError: It raises ValueError\n        here.\n    KeyError: It is.",
    ],
)
def test_sections_pass(docstring: str) -> None:
    assert faults(docstring) == []


def test_docstrings_of_functions_are_found() -> None:
    source = 'class C:\n    """C."""\n    async def f(self):\n        """F.\n\n        G.\n        """\ndef g(): pass\n'
    assert list(function_docstrings(source)) == [(4, "F.\n\nG.")]


def has_string_fields(node: ast.ClassDef) -> bool:
    """Return whether strings below the fields document them: in a dataclass, a NamedTuple and a Protocol."""
    marks = [*node.bases, *(each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)]
    return any(ast.unparse(mark).rpartition(".")[2] in ("dataclass", "NamedTuple", "Protocol") for mark in marks)


def describes_fields(source: str) -> list[str]:
    """Return the classes with such fields whose docstring has a section `Attributes:` or `Args:`."""
    if "Attributes:" not in source and "Args:" not in source:
        return []
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and has_string_fields(node)
        if re.search(r"^(Attributes|Args):$", ast.get_docstring(node) or "", re.MULTILINE)
    ]


@pytest.mark.parametrize("package", ["broker", "kafkalog", "spark_kafkalog"])
def test_strings_below_fields_document_them(package: str) -> None:
    assert found_in(package, describes_fields) == []


def test_sections_about_fields_are_found() -> None:
    section = '    """D.\n\n    Attributes:\n        a: x.\n    """\n    a: int\n'
    heads = ["@dataclass\nclass A:", "@dataclasses.dataclass(slots=True)\nclass B:", "class C(NamedTuple):"]
    heads += ["class D(Protocol):", "class E:"]
    found = [describes_fields(f"{head}\n{section}") for head in heads]
    assert found == [["A"], ["B"], ["C"], ["D"], []]
    assert describes_fields('@dataclass\nclass F:\n    """D."""\n    a: int\n    """X."""\n') == []


def test_the_reference_lists_the_entries_of_sections() -> None:
    docstring = (
        "Read it.\n\n    code: here\n\nArgs:\n    at: The place,\n        in bytes.\n    *more: Others.\n\n"
        "Raises:\n    ValueError, a.SomeError: It is wrong.\n\nThe end."
    )
    assert list_sections(docstring) == (
        "Read it.\n\n    code: here\n\nArgs:\n\n* `at`: The place,\n  in bytes.\n* `*more`: Others.\n\n"
        "Raises:\n\n* `ValueError`, `a.SomeError`: It is wrong.\n\nThe end."
    )

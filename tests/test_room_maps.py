"""Test that each folder's docstring names what is in it, and that the folders of tests are those of the product."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "kafkalog", "spark_kafkalog", "pyspark_kafkalog", "peers", "conformance", "benchmarks")
ENTRY = re.compile(r"^\s*-\s+(.*)$", re.MULTILINE)
NAME = re.compile(r"`{1,2}([a-z0-9_]+)/?`{1,2}")
TABLES = {"kafkalog.protocol.messages", "conformance.suites"}
"""Folders with one module for each API or client, named after it."""
OF_TESTS_ALONE = {"golden", "drill", "class_data"}
"""Folders of tests that hold bytes of other implementations, or programs that the tests or `make` start."""
OF_WHOLE_QUERIES = {"queries", "without_jvm", "kills", "secured", "pages"}
"""Folders of tests of all of Spark's side."""


def folders() -> list[str]:
    found = [path.parent for package in PACKAGES for path in sorted((ROOT / package).rglob("__init__.py"))]
    return [".".join(path.relative_to(ROOT).parts) for path in found]


def contents(folder: Path) -> set[str]:
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", folders())
def test_the_docstring_names_what_is_there(folder: str) -> None:
    path = ROOT.joinpath(*folder.split("."))
    there = contents(path)
    if not there or folder in TABLES:
        return
    text = ast.get_docstring(ast.parse((path / "__init__.py").read_text())) or ""
    named = set(NAME.findall(text))
    assert there <= named, f"{folder} does not say what these are for: {sorted(there - named)}"
    listed = {NAME.match(entry)[1] for entry in ENTRY.findall(text) if NAME.match(entry)}  # type: ignore[index]
    assert listed <= there, f"{folder} lists what is not there: {sorted(listed - there)}"


@pytest.mark.parametrize("package", ["broker", "kafkalog", "spark_kafkalog"])
def test_tests_are_in_folders_of_the_product(package: str) -> None:
    tests = ROOT / "tests"
    found = [path.parent.relative_to(tests) for path in (tests / package).rglob("*.py")]
    known = OF_TESTS_ALONE | OF_WHOLE_QUERIES
    strange = {str(each) for each in found if each.name not in known and not (ROOT / each).is_dir()}
    assert strange == set()

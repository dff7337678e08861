"""Test that the imports of our modules have no cycles, and that no module imports from a file of tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.sources.imports import find_circles, read_graph

ROOT = Path(__file__).parents[1]
PACKAGES = ("kafkalog", "broker", "spark_kafkalog", "pyspark_kafkalog")

EXEMPT = [
    # The removal of members takes the groups of a partition as an argument, and imports their class for its type alone.
    ["broker.coordinator.group.partition_groups", "broker.coordinator.group.removal"],
]


def test_there_is_no_circle() -> None:
    graph = read_graph(ROOT, PACKAGES)
    assert len(graph) > 400, "the packages have been read"
    assert [circle for circle in find_circles(graph) if circle not in EXEMPT] == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from .b import x", "import pkg.a"),
        ("from . import b", "def f():\n    from pkg.a import y"),
        ("import pkg.b", "try:\n    from pkg import a\nexcept ImportError:\n    pass"),
        ("from .b import x", "if TYPE_CHECKING:\n    from .a import y"),
        ("if typing.TYPE_CHECKING:\n    from .b import x", "if typing.TYPE_CHECKING:\n    from .a import y"),
    ],
)
def test_a_circle_is_found(tmp_path: Path, first: str, second: str) -> None:
    write_package(tmp_path, first, second)
    assert find_circles(read_graph(tmp_path, ("pkg",))) == [["pkg.a", "pkg.b"]]


def test_no_module_imports_from_a_file_of_tests() -> None:
    # What several of them need lies in a module beside them, so that each can be changed alone.
    importing = re.compile(r"^(?:from|import) (?:tests\S*)?\.test_", re.MULTILINE)
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    assert len(sources) > 1000, "the tests have been read"
    assert [path for path, source in sources.items() if importing.search(source)] == []


def write_package(root: Path, first: str, second: str) -> None:
    (root / "pkg").mkdir()
    for name, text in {"__init__": "", "a": first, "b": second}.items():
        (root / "pkg" / f"{name}.py").write_text(text)

"""No module of ours imports one that imports it in turn, at the top or inside a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.imports import find_circles, read_graph

ROOT = Path(__file__).parents[1]
PACKAGES = ("kafkalog", "broker", "spark_kafkalog", "pyspark_kafkalog")


def test_there_is_no_circle() -> None:
    graph = read_graph(ROOT, PACKAGES)
    assert len(graph) > 400, "the packages have been read"
    assert find_circles(graph) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from .b import x", "import pkg.a"),
        ("from . import b", "def f():\n    from pkg.a import y"),
        ("import pkg.b", "try:\n    from pkg import a\nexcept ImportError:\n    pass"),
    ],
)
def test_a_circle_is_found(tmp_path: Path, first: str, second: str) -> None:
    write_package(tmp_path, first, second)
    assert find_circles(read_graph(tmp_path, ("pkg",))) == [["pkg.a", "pkg.b"]]


def test_imports_for_type_checkers_make_none(tmp_path: Path) -> None:
    write_package(tmp_path, "from .b import x", "if TYPE_CHECKING:\n    from .a import y")
    assert find_circles(read_graph(tmp_path, ("pkg",))) == []


def write_package(root: Path, first: str, second: str) -> None:
    (root / "pkg").mkdir()
    for name, text in {"__init__": "", "a": first, "b": second}.items():
        (root / "pkg" / f"{name}.py").write_text(text)

"""Test that modules that log have one logger, called `logger`, with the module's name, for which levels are set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "kafkalog", "spark_kafkalog", "pyspark_kafkalog")
OWN = "logger = logging.getLogger(__name__)"


def deviations(source: str) -> Iterator[str]:
    """Yield each statement that makes a logger of a fixed name in another way. Computed names do not matter."""
    if "getLogger" not in source:
        # To parse 2,000 modules takes long.
        return
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.stmt):
            continue
        own = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)]
        for call in (found for each in own for found in ast.walk(each) if isinstance(found, ast.Call)):
            if not ast.unparse(call.func).endswith("getLogger"):
                continue
            name = call.args[0] if call.args else None
            is_fixed = isinstance(name, ast.Constant) or (isinstance(name, ast.Name) and name.id == "__name__")
            if is_fixed and (ast.unparse(statement) != OWN or statement.col_offset):
                yield f"line {statement.lineno}: {ast.unparse(call)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_loggers_are_called_logger_and_have_the_names_of_modules(package: str) -> None:
    found = {
        path.relative_to(ROOT).as_posix(): wrong
        for path in sorted((ROOT / package).rglob("*.py"))
        if (wrong := list(deviations(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (OWN, 0),
        ("for name in names:\n    logging.getLogger(name).setLevel(10)", 0),
        ("_log = logging.getLogger(__name__)", 1),
        ('logger = logging.getLogger("kafkalog.broker")', 1),
        ("def f() -> None:\n    logger = logging.getLogger(__name__)", 1),
        ("if is_wrong:\n    getLogger(__name__).warning('no')", 1),
    ],
)
def test_what_deviates(source: str, count: int) -> None:
    assert len(list(deviations(source))) == count

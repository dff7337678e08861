"""The messages that code can print: the texts of its errors, warnings and complaints, with … for what is put in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HOLE = "…"
_FORMAT = re.compile(r"%(?:\(\w+\))?[-+ #0]*[\d.*]*[a-zA-Z]")
_FEW = 12
"""Texts with fewer letters say nothing by themselves."""


def messages(*paths: Path) -> set[str]:
    """Return all texts in the code of files and folders, each with `HOLE` in place of what is formatted into it."""
    found: set[str] = set()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(_texts(ast.parse(file.read_text())))
    return found


def raised(*paths: Path) -> set[str]:
    """Return the texts of `messages` that stand in `raise` statements."""
    found: set[str] = set()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            statements = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Raise)]
            found.update(text for each in statements if each.exc is not None for text in _texts(each.exc))
    return found


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module except docstrings, and the parts of those that are joined by +."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    parts = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
    for node in ast.walk(tree):
        if id(node) in documentation or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(each.value if isinstance(each, ast.Constant) else HOLE for each in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = _FORMAT.sub(HOLE, node.value)
        else:
            continue
        if sum(map(str.isalpha, text)) >= _FEW and " " in text:
            yield " ".join(text.split())

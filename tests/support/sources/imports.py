"""Read the graph of imports within our packages from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

Graph = Mapping[str, Set[str]]
"""Modules by name, each with those that it imports: at its top, inside a function, or for type checkers alone."""


def read_graph(root: Path, packages: tuple[str, ...]) -> Graph:
    """Read the imports of all modules of these packages."""
    files = {_name(path.relative_to(root)): path for package in packages for path in (root / package).rglob("*.py")}
    graph = {}
    for name, path in files.items():
        inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imported = set(_imports(ast.parse(path.read_text()), inside, files.keys()))
        graph[name] = (imported & files.keys()) - {name}
    return graph


def find_circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that reach each other (Tarjan's strongly connected components of two or more)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        open_.append(name)
        for other in sorted(graph[name]):
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            at = open_.index(name)
            if len(open_) - at > 1:
                circles.append(sorted(open_[at:]))
            del open_[at:]

    for name in sorted(graph):
        if name not in numbers:
            visit(name)
    return circles


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST, package: str, modules: Set[str]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, package, modules)
        else:
            yield from _imports(node, package, modules)


def _from(node: ast.ImportFrom, package: str, modules: Set[str]) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        above = ".".join(parts[: len(parts) - node.level + 1])
        base = f"{above}.{base}" if base else above
    for alias in node.names:
        # A name of a package is a module of it, or something that its `__init__` defines.
        name = f"{base}.{alias.name}"
        yield name if name in modules else base

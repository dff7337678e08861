"""Patterns in paths: `*`, `?` and `[…]` within names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from urllib.parse import unquote

from spark_kafkalog.fs.interface import Entry, FileSystem
from spark_kafkalog.fs.opening import file_system
from spark_kafkalog.fs.paths import split


def expand(pattern: str) -> list[Entry]:
    """Return the entry at a path, or all that a pattern (`*`, `?`, `[…]` within names) matches, in order."""
    fs = file_system(pattern)
    named = fs.stat(pattern)
    if named is not None:
        return [named]
    head, *rest = _steps(pattern)
    found = fs.stat(head)
    return [] if found is None else list(_matching(fs, found, rest))


def _steps(pattern: str) -> list[str]:
    """Split a pattern into the part without wildcards, and the names below it."""
    prefix, inside = split(pattern)
    names = inside.split("/")
    first = next((at for at, name in enumerate(names) if _is_pattern(name)), len(names))
    head = prefix + "/".join(names[:first])
    below = [unquote(name) if prefix.startswith("file:") else name for name in names[first:] if name]
    return [head or ("/" if inside.startswith("/") else "."), *below]


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")


def _matching(fs: FileSystem, entry: Entry, names: list[str]) -> Iterator[Entry]:
    if not names:
        yield entry
        return
    if not entry.is_directory:
        return
    for child in fs.entries(entry.path):
        hidden = child.name.startswith(".") and not names[0].startswith(".")
        if not hidden and fnmatch.fnmatchcase(child.name, names[0]):
            yield from _matching(fs, child, names[1:])

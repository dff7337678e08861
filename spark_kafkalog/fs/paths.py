"""Paths with and without a scheme, as Hadoop takes them: it knows neither queries nor fragments."""

from __future__ import annotations

from urllib.parse import unquote


def split(path: str) -> tuple[str, str]:
    """Scheme and authority (none for a plain path), and the path, of which ``?`` and ``#`` are plain parts."""
    if path.startswith("/"):
        return "", path
    scheme, colons, rest = path.partition("://")
    if colons:
        authority, slash, inside = rest.partition("/")
        return f"{scheme}://{authority}", slash + inside
    return ("file:", path.removeprefix("file:")) if path.startswith("file:") else ("", path)


def local_path(path: str) -> str:
    """The path of this machine that a path or ``file:`` URI names."""
    return unquote(split(path)[1]) if path.startswith("file:") else path

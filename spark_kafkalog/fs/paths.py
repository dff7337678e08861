"""Paths with and without a scheme, as in Hadoop, which knows neither queries nor fragments."""

from __future__ import annotations

from urllib.parse import unquote


def split(path: str) -> tuple[str, str]:
    """Split off scheme and authority (empty for a plain path). `?` and `#` are ordinary parts of the path."""
    if path.startswith("/"):
        return "", path
    if path.startswith("hdfs:/") and not path.startswith("hdfs://"):
        return "hdfs://", path.removeprefix("hdfs:")
    scheme, colons, rest = path.partition("://")
    if colons:
        authority, slash, inside = rest.partition("/")
        return f"{scheme}://{authority}", slash + inside
    return ("file:", path.removeprefix("file:")) if path.startswith("file:") else ("", path)


def local_path(path: str) -> str:
    """Return the local path of a path or `file:` URI."""
    return unquote(split(path)[1]) if path.startswith("file:") else path

"""Paths with and without a scheme, as in Hadoop, which knows neither queries nor fragments."""

from __future__ import annotations

from urllib.parse import unquote


def with_authority(path: str) -> str:
    """Return an `hdfs:` URL without a host in the form with two slashes. Hadoop takes both forms."""
    if path.startswith("hdfs:/") and not path.startswith("hdfs://"):
        return f"hdfs://{path.removeprefix('hdfs:')}"
    return path


def split(path: str) -> tuple[str, str]:
    """Split off scheme and authority (empty for a plain path). `?` and `#` are ordinary parts of the path."""
    if path.startswith("/"):
        return "", path
    scheme, colons, rest = with_authority(path).partition("://")
    if colons:
        authority, slash, inside = rest.partition("/")
        return f"{scheme}://{authority}", slash + inside
    return ("file:", path.removeprefix("file:")) if path.startswith("file:") else ("", path)


def local_path(path: str) -> str:
    """Return the local path of a path or `file:` URI."""
    return unquote(split(path)[1]) if path.startswith("file:") else path

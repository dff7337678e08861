"""The code that all nodes in JSON share: reading with an error that names the node, and writing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from broker.metadata.model import MetadataError

T = TypeVar("T")
SHOWN_BYTES = 200


class ZnodeError(MetadataError):
    """A node in ZooKeeper has no content that can be read; the message names its path."""


def read(path: str, data: bytes, take: Callable[[dict[str, Any]], T]) -> T:
    """Return what `take` makes of a node's JSON object.

    Raises:
        ZnodeError: The data is no JSON object, or `take` misses a key or finds another type.
    """
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise TypeError("it is not a JSON object")
        return take(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        shown = data[:SHOWN_BYTES].decode(errors="replace")
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ZnodeError(f"The node {path} in ZooKeeper cannot be read: {reason}: {shown!r}") from None


def read_string(data: bytes) -> str | None:
    """Return the string that a node's JSON is, or None if it is anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def write(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a node."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def integer(value: object) -> int:
    """Return a number of the JSON.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def text(value: object) -> str:
    """Return a string of the JSON.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def integers(value: object) -> tuple[int, ...]:
    """Return a list of numbers of the JSON.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return tuple(map(integer, value))

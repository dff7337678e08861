"""fastavro: its reader in plain Python, and a logical type of ours in its registry."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

Read = Callable[..., Any]
"""fastavro's `schemaless_reader`."""


def bounded_reader() -> Read | None:
    """Return the reader in plain Python; None if this fastavro has none.

    Records that are nested too deeply end it with RecursionError. Its compiled twin, the public one, does not limit the
    depth, so it overflows the stack and kills the process.
    """
    try:
        from fastavro import _read_py
    except ImportError:
        return None
    found = getattr(_read_py, "schemaless_reader", None)
    return found if isinstance(found, FunctionType) else None


def register_decimals(name: str, read: Callable[[bytes, Any, Any], Any]) -> None:
    """Make fastavro read decimals whose logical type has this name with `read`.

    fastavro's registry, the documented way to add a logical type, is process-wide. Only we use the name, so the user's
    own reads with fastavro do not change.
    """
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes", "fixed"):
        LOGICAL_READERS[f"{kind}-{name}"] = read

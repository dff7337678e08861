"""fastavro: its reader in plain Python, and a logical type of ours in its registry."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

Read = Callable[..., Any]
"""fastavro's ``schemaless_reader``."""


def bounded_reader() -> Read | None:
    """The reader in plain Python, which ends with RecursionError in records within records.

    Its compiled twin, the public one, has no bound on them but the end of the stack, and of the process. None where
    this fastavro has no such module.
    """
    try:
        from fastavro import _read_py
    except ImportError:
        return None
    found: Read | None = getattr(_read_py, "schemaless_reader", None)
    return found


def register_decimals(name: str, read: Callable[[bytes, Any, Any], Decimal]) -> None:
    """Have fastavro read decimals whose logical type has this name by ``read``.

    Its registry, the documented way to add a logical type, is one for the process. The name is ours alone: what the
    user's own code reads with fastavro is not touched.
    """
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes", "fixed"):
        LOGICAL_READERS[f"{kind}-{name}"] = read

"""The loops over records: compiled when asked for, plain Python until then."""

from __future__ import annotations

from . import _plain

validate_records = _plain.validate_records


def ready() -> bool:
    """Whether the compiled kernels serve."""
    return False


def load() -> None:
    """Compile the kernels, or take them from the cache."""


def load_in_background() -> None:
    """`load`, without making the caller wait."""

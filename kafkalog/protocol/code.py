"""Numbers of the protocol that stand for values."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Code(IntEnum):
    """Base of the values of one field. They have UNKNOWN = 0, which stands for numbers that newer peers may send."""

    # `Enum` computes hashes in Python, and the broker looks up keys with codes for each request.
    __hash__ = int.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) and value else None

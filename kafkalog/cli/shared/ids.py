"""Ids of partitions and brokers, as users and files give them."""

from __future__ import annotations

from typing import TypeGuard


def is_int32(value: object) -> TypeGuard[int]:
    """Return whether this is an integer that an id of a partition or a broker can be; True and False are not."""
    return type(value) is int and 0 <= value < 1 << 31

"""Divide records of a coordinator's log among batches that the log takes. Pure.

Ids and names may have 32,767 bytes each. A batch that is too large is refused whole, and again each time it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

RECORD_BYTES = 40
"""About the bytes that a tombstone has besides the names in its key. The header of a batch has twice as many."""


def fitting(items: Iterable[T], size_of: Callable[[T], int], most_bytes: int, most: int) -> Iterator[list[T]]:
    """Divide items, in their order, among as few batches as hold them; each batch has at least one.

    Args:
        items: What is stored.
        size_of: Returns how many bytes an item takes in a batch.
        most_bytes: The most bytes of a batch, with its header.
        most: The most items of a batch.
    """
    batch: list[T] = []
    room = most_bytes - 2 * RECORD_BYTES
    for item in items:
        size = size_of(item)
        if batch and (size > room or len(batch) == most):
            yield batch
            batch, room = [], most_bytes - 2 * RECORD_BYTES
        batch.append(item)
        room -= size
    if batch:
        yield batch

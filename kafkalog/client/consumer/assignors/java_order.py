"""The order in which Java's HashMap and HashSet give their elements.

Kafka's assignors walk over hash tables, and where a member has to give up a partition it is the first one met that
keeps its own. To decide as they do, the same walk is needed. A HashMap has a power of two of buckets, 16 at first,
twice as many whenever more than three quarters as many elements are in it; an element's bucket is its hash, the upper
16 bits folded into the lower, modulo their number. Within a bucket elements come in the order in which they were added,
be it a list or (from eight elements on, which is left out of account) a tree; growing keeps that order. A table never
shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from kafkalog.client.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

_LEAST = 16


def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned 32-bit number: over UTF-16 code units."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value


def java_hash(key: object) -> int:
    """The hash of a string, a TopicPartition, or a pair of strings (Kafka's ConsumerPair)."""
    if isinstance(key, str):
        return string_hash(key)
    if isinstance(key, TopicPartition):
        return (31 * (31 + key.partition) + string_hash(key.topic)) & 0xFFFFFFFF
    if isinstance(key, tuple):
        return (31 * (31 + java_hash(key[0])) + java_hash(key[1])) & 0xFFFFFFFF
    raise TypeError(f"no Java hash of {key!r}")


def java_key(text: str) -> bytes:
    """A key that sorts strings as ``String.compareTo`` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


class JavaMap(dict[K, V]):
    """A dict whose iteration is a HashMap's. ``capacity`` is what the constructor of the HashMap is given, if anything.

    Only what the assignors use is kept in order: iteration, ``items``, ``keys`` are through `order`.
    """

    def __init__(self, capacity: int = _LEAST) -> None:
        super().__init__()
        self._buckets = _power_of_two(capacity)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self._buckets * 3 // 4:
            self._buckets *= 2

    def order(self) -> list[K]:
        """The keys in order."""
        most = self._buckets - 1
        return sorted(super().__iter__(), key=lambda key: _spread(java_hash(key)) & most)

    def __iter__(self) -> Iterator[K]:
        return iter(self.order())


def hash_set_order(elements: Iterable[K]) -> list[K]:
    """The elements in the order of a HashSet to which they are added one by one."""
    table: JavaMap[K, None] = JavaMap()
    for element in elements:
        table[element] = None
    return table.order()


def _spread(value: int) -> int:
    return value ^ (value >> 16)


def _power_of_two(capacity: int) -> int:
    return 1 << max(capacity - 1, 0).bit_length()

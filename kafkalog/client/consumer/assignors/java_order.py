"""The order in which Java's HashMap and HashSet iterate.

Kafka's assignors iterate over hash tables, and where a member must give up a partition, the first one in that order
keeps its partition. The same decisions need the same order. A HashMap has a power of two of buckets: 16 at first, and
twice as many whenever it has more elements than three quarters of its buckets. An element's bucket is its hash, with
the upper 16 bits folded into the lower, modulo the number of buckets. Within a bucket, elements are in the order in
which they were added, be it a list or (from eight elements on, which is not modelled) a tree. Growth keeps that order.
A table never shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from kafkalog.client.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

_LEAST = 16


def string_hash(text: str) -> int:
    """Compute `String.hashCode` as an unsigned 32-bit number: over UTF-16 code units."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value


def java_hash(key: object) -> int:
    """Compute Java's hash of a string, a TopicPartition, or a pair of strings (Kafka's ConsumerPair)."""
    if isinstance(key, str):
        return string_hash(key)
    if isinstance(key, TopicPartition):
        return (31 * (31 + key.partition) + string_hash(key.topic)) & 0xFFFFFFFF
    if isinstance(key, tuple):
        return (31 * (31 + java_hash(key[0])) + java_hash(key[1])) & 0xFFFFFFFF
    raise TypeError(f"no Java hash of {key!r}")


def java_key(text: str) -> bytes:
    """Return a key that sorts strings as `String.compareTo` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


class JavaMap(dict[K, V]):
    """A dict that iterates as a HashMap does.

    `capacity` is the argument of the HashMap's constructor, if there is one. Only what the assignors use is in order:
    iteration, and `order`, which stands for `items` and `keys`.
    """

    def __init__(self, capacity: int = _LEAST) -> None:
        super().__init__()
        self._buckets = _power_of_two(capacity)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self._buckets * 3 // 4:
            self._buckets *= 2

    def order(self) -> list[K]:
        """Return the keys in order."""
        most = self._buckets - 1
        return sorted(super().__iter__(), key=lambda key: _spread(java_hash(key)) & most)

    def __iter__(self) -> Iterator[K]:
        return iter(self.order())


def hash_set_order(elements: Iterable[K]) -> list[K]:
    """Return the elements in the order of a HashSet to which they are added one by one."""
    table: JavaMap[K, None] = JavaMap()
    for element in elements:
        table[element] = None
    return table.order()


def _spread(value: int) -> int:
    return value ^ (value >> 16)


def _power_of_two(capacity: int) -> int:
    return 1 << max(capacity - 1, 0).bit_length()

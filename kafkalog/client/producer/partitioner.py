"""Choose partitions as the Java client does, so that keys of both clients go to the same partitions.

A record with a key goes to `toPositive(murmur2(key)) % partitions` (`BuiltInPartitioner`). Records without a key go
to one partition until it has got enough bytes, and then to another one (KIP-480, KIP-794).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from struct import Struct
from typing import NamedTuple

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORDS = [Struct(f"<{count}I").unpack_from for count in range(64)]
"""Unpackers by the number of 32-bit words in a key."""


def murmur2(data: bytes) -> int:
    """Compute the 32-bit MurmurHash2 of `data`, unsigned.

    The seed is that of `org.apache.kafka.common.utils.Utils`.
    """
    length = len(data)
    h = _SEED ^ length
    words = length >> 2
    unpack = _WORDS[words] if words < len(_WORDS) else Struct(f"<{words}I").unpack_from
    for k in unpack(data):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if length & 3:
        h = (h ^ int.from_bytes(data[words * 4 :], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class TopicLayout(NamedTuple):
    """The number of a topic's partitions, and those partitions that have a leader."""

    partitions: int
    available: list[int]


Choose = Callable[[str, bytes | None, bytes | None, TopicLayout], int]
"""A user's partitioner: from topic, key and value in bytes, and the topic's partitions, to a partition."""


class RoundRobinPartitioner:
    """Choose the next partition that has a leader for each record, whatever its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: defaultdict[str, count[int]] = defaultdict(count)

    def partition(self, topic: str, key: bytes | None, value: bytes | None, layout: TopicLayout) -> int:
        """Return the partition of a record."""
        with self._lock:
            number = next(self._next[topic])
        if layout.available:
            return layout.available[number % len(layout.available)]
        return number % layout.partitions


class StickyPartitioner:
    """The present partition for a topic's records without a key.

    Callers report how many bytes they appended. After `switch_bytes` the next partition is drawn from those with a
    leader.
    """

    __slots__ = ("_random", "bytes_left", "partition", "switch_bytes")

    def __init__(self, switch_bytes: int, random: Random | None = None) -> None:
        self._random = random or Random()
        self.switch_bytes = switch_bytes
        self.partition = -1
        self.bytes_left = 0

    def next(self, available: Sequence[int]) -> int:
        """Draw another partition of `available` (or the only one), and stay with it."""
        others = [partition for partition in available if partition != self.partition] or list(available)
        self.partition = drawn = self._random.choice(others)
        self.bytes_left = self.switch_bytes
        return drawn

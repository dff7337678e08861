"""Which partition a record goes to: what the Java client does, so that keys land where its producers put them.

A record with a key goes to ``toPositive(murmur2(key)) % partitions`` (``BuiltInPartitioner``); one without
stays with a partition until enough bytes went there, then moves on to another (KIP-480, KIP-794).
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
"""By how many words of 32 bits a key has."""


def murmur2(data: bytes) -> int:
    """MurmurHash2 with 32 bits of `data`, unsigned, with the seed of ``org.apache.kafka.common.utils.Utils``."""
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
    """The partition of a key among `partitions` of them."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class TopicLayout(NamedTuple):
    """The number of a topic's partitions, and those of them that have a leader."""

    partitions: int
    available: list[int]


Choose = Callable[[str, bytes | None, bytes | None, TopicLayout], int]
"""Topic, key and value in bytes, and the topic's partitions, to a partition: a partitioner of the user's."""


class RoundRobinPartitioner:
    """Each record to the next partition that has a leader, whatever its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: defaultdict[str, count[int]] = defaultdict(count)

    def partition(self, topic: str, key: bytes | None, value: bytes | None, layout: TopicLayout) -> int:
        """The partition of a record."""
        with self._lock:
            number = next(self._next[topic])
        if layout.available:
            return layout.available[number % len(layout.available)]
        return number % layout.partitions


class StickyPartitioner:
    """The present partition of one topic's records without a key.

    Callers report what they appended; after `switch_bytes` the next partition is drawn among those with a leader.
    """

    __slots__ = ("_random", "bytes_left", "partition", "switch_bytes")

    def __init__(self, switch_bytes: int, random: Random | None = None) -> None:
        self._random = random or Random()
        self.switch_bytes = switch_bytes
        self.partition = -1
        self.bytes_left = 0

    def next(self, available: Sequence[int]) -> int:
        """Draw another partition of `available` (which may be the only one) and stay with it."""
        others = [partition for partition in available if partition != self.partition] or list(available)
        self.partition = self._random.choice(others)
        self.bytes_left = self.switch_bytes
        return self.partition

"""Test that records go to the partitions that the Java client chooses."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.producer.partitioner import StickyPartitioner, murmur2, partition_for_key

# UtilsTest.testMurmur2 of Apache Kafka (signed there).
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    bytes([ord("a"), ord("b"), ord("c")]): 479470107,
}


@pytest.mark.parametrize(("data", "signed"), KNOWN.items())
def test_known_hashes(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_agrees_with_another_implementation(key: bytes, partitions: int) -> None:
    from kafka.partitioner.default import murmur2 as other

    assert murmur2(key) == other(key) & 0xFFFFFFFF
    assert partition_for_key(key, partitions) == (other(key) & 0x7FFFFFFF) % partitions


def test_sticky_moves_on_and_reaches_all() -> None:
    sticky = StickyPartitioner(100, Random(1))
    seen = [sticky.next(range(4)) for _ in range(100)]
    assert set(seen) == {0, 1, 2, 3}
    assert all(before != after for before, after in pairwise(seen))
    assert sticky.bytes_left == 100


def test_sticky_keeps_the_only_partition() -> None:
    sticky = StickyPartitioner(100)
    assert [sticky.next([2]) for _ in range(3)] == [2, 2, 2]

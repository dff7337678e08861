"""Test that records go to the partitions that the Java client chooses."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.producer.partition_queue import PartitionQueue
from kafkalog.client.producer.partitioner import StickyPartitioner, murmur2, partition_for_key
from kafkalog.client.producer.sender.topic_metadata import TopicState
from tests.kafkalog.client.producer.known_hashes import KNOWN


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


class MovedOn(StickyPartitioner):
    """A partitioner that a thread which knows five partitions moves on to the last one after each read and write."""

    _present: int

    @property
    def partition(self) -> int:
        found, self._present = self._present, 4
        return found

    @partition.setter
    def partition(self, value: int) -> None:
        self._present = 4 if value >= 0 else value

    @classmethod
    def at(cls, partition: int, bytes_left: int) -> MovedOn:
        found = cls(100)
        found._present, found.bytes_left = partition, bytes_left
        return found


@pytest.mark.parametrize("bytes_left", [50, 0], ids=["stays", "moves on"])
def test_a_thread_that_does_not_know_the_new_partitions_yet_takes_one_that_it_knows(bytes_left: int) -> None:
    state = TopicState("t", 100)
    state.queues = [PartitionQueue("t", 0)]
    state.sticky = MovedOn.at(0, bytes_left)
    assert state.next_queue(10) is state.queues[0]

"""Tests of the sizes of ranges, estimated from the headers of batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from spark_kafkalog.driver.batch_density import batch_density
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.offsets import OffsetRange
from spark_kafkalog.plan import byte_sizes
from spark_kafkalog.plan.byte_sizes import ByBytes, Profile
from spark_kafkalog.plan.splitting import split
from tests.spark_kafkalog.plan.support import options_for, spans
from tests.spark_kafkalog.topics import Topics
from tests.spark_kafkalog.without_spark import Batch, Stream

REQUESTS = 20
"""Of a trigger that may reach its limit."""
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Batches:
    """Partitions as lists of (offsets, bytes) of their batches; counts how often it is asked."""

    def __init__(self, partitions: Mapping[TopicPartition, list[tuple[int, int]]]) -> None:
        self.partitions = partitions
        self.asked = 0

    def __call__(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        self.asked += 1
        return {tp: self.density(tp, offset) for tp, offset in at.items()}

    def density(self, tp: TopicPartition, offset: int) -> float:
        for count, size in self.partitions[tp]:
            if offset < count:
                return size / count
            offset -= count
        raise AssertionError("beyond the end")

    def ends(self) -> dict[TopicPartition, int]:
        return {tp: sum(count for count, _ in batches) for tp, batches in self.partitions.items()}

    def bytes(self, tp: TopicPartition, start: int, end: int) -> float:
        total, at = 0.0, 0
        for count, size in self.partitions[tp]:
            total += size / count * max(min(end, at + count) - max(start, at), 0)
            at += count
        return total


def test_like_records_are_cut_exactly() -> None:
    log = Batches({A: [(10, 1000)] * 500, B: [(5, 4000)] * 100})
    begins = dict.fromkeys(log.partitions, 0)
    ends, profiles = byte_sizes.limited(begins, log.ends(), 90_000, log)
    # 500 KB and 400 KB are waiting.
    assert ends == {A: 497, B: 50}
    assert log.asked == REQUESTS
    assert profiles[A].bytes == pytest.approx(log.bytes(A, 0, profiles[A].end))


def test_far_below_the_limit_one_look_is_enough() -> None:
    log = Batches({A: [(10, 1000)] * 500})
    assert byte_sizes.limited({A: 0}, log.ends(), 2_000_000, log)[0] == log.ends()
    assert log.asked == 4
    assert byte_sizes.limited({A: 5000}, log.ends(), 10, log)[0] == log.ends()
    assert log.asked == 4, "nothing is waiting"


def test_records_that_grow() -> None:
    """The sizes of the records to read next count, not the mean of all."""
    log = Batches({A: [(10, 1000 + 20 * n) for n in range(1000)]})
    for begin in (0, 3000, 8000):
        ends, _ = byte_sizes.limited({A: begin}, log.ends(), 200_000, log)
        assert log.bytes(A, begin, ends[A]) == pytest.approx(200_000, rel=0.05)


SIZES = st.lists(st.tuples(st.integers(1, 50), st.integers(70, 20_000)), min_size=1, max_size=30)


@given(SIZES, SIZES, st.integers(1, 300_000), st.data())
def test_a_limit_moves_on_and_ends(
    a: list[tuple[int, int]], b: list[tuple[int, int]], most: int, data: st.DataObject
) -> None:
    log = Batches({A: a, B: b})
    ends = log.ends()
    begins = {tp: data.draw(st.integers(0, end)) for tp, end in ends.items()}
    found, profiles = byte_sizes.limited(begins, ends, most, log)
    assert all(begins[tp] <= found[tp] <= ends[tp] for tp in ends)
    assert (found == begins) == (begins == ends)
    assert log.asked <= REQUESTS
    spent = sum(profile.before(found[tp]) for tp, profile in profiles.items())
    largest = max(max(profile.densities) for profile in profiles.values()) if profiles else 0
    assert spent <= most * 1.01 + 2 * largest, "as far as the estimate tells, the limit holds but for an offset each"


@given(SIZES)
def test_a_profile_is_its_own_inverse(batches: list[tuple[int, int]]) -> None:
    log = Batches({A: batches})
    end = log.ends()[A]
    profile = byte_sizes.profiles([OffsetRange(A, 0, end)], log)[A]
    assert profile.before(end) == pytest.approx(profile.bytes)
    assert profile.offset_at(profile.bytes * 1.001) == end
    for offset in range(end + 1):
        assert profile.offset_at(profile.before(offset)) in (offset - 1, offset)


def test_partitions_that_cannot_be_asked_count_as_the_others() -> None:
    ranges = [OffsetRange(A, 0, 10), OffsetRange(B, 0, 10)]
    found = byte_sizes.profiles(ranges, lambda at: {A: 7.0}, samples=2)
    assert found == {A: Profile(0, 10, (7.0, 7.0)), B: Profile(0, 10, (7.0, 7.0))}


def test_without_any_size_those_of_before_count_or_what_is_usual() -> None:
    def silent(at: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        return {}

    ranges = [OffsetRange(A, 0, 10), OffsetRange(B, 0, 10)]
    assert byte_sizes.profiles(ranges, silent, samples=1)[A].densities == (1024.0,)
    known = {A: Profile(0, 5, (6.0, 8.0))}
    found = byte_sizes.profiles(ranges, silent, samples=1, known=known)
    assert [found[tp].densities for tp in (A, B)] == [(7.0,), (7.0,)]
    only_b = byte_sizes.profiles(ranges, lambda at: {B: 9.0}, samples=1, known=known)
    assert [only_b[tp].densities for tp in (A, B)] == [(7.0,), (9.0,)]
    ends, _ = byte_sizes.limited({A: 0}, {A: 1_000_000}, 64 << 10, silent)
    assert ends == {A: 64}
    assert byte_sizes.limited({A: 5}, {A: 1_000_000}, 700, silent, known)[0] == {A: 105}


def test_splits_by_bytes() -> None:
    heavy, light = OffsetRange(A, 0, 100), OffsetRange(B, 0, 100)
    measure = ByBytes({A: Profile(0, 100, (90.0, 90.0)), B: Profile(0, 100, (10.0, 10.0))})
    assert [(part.tp, part.size) for part in split([heavy, light], 10, None, None, measure)] == [
        *[(A, size) for size in (11, 11, 11, 11, 11, 11, 11, 11, 12)],
        (B, 100),
    ]
    # Within a range, too: its first half has most of the bytes.
    uneven = ByBytes({A: Profile(0, 100, (30.0, 10.0))})
    assert split([heavy], 2, None, None, uneven) == [OffsetRange(A, 0, 33), OffsetRange(A, 33, 100)]
    assert [part.size for part in split([heavy, light], None, None, 5000, measure)] == [50, 50, 100]
    assert [part.size for part in split([heavy], None, 30, 1500, measure)] == [12, 13, 12, 13, 12, 13, 12, 13]


@given(SIZES, st.integers(1, 40), st.integers(1, 100_000))
def test_a_split_by_bytes_covers_the_same_offsets(batches: list[tuple[int, int]], count: int, most: int) -> None:
    log = Batches({A: batches})
    part = OffsetRange(A, 0, log.ends()[A])
    measure = ByBytes(byte_sizes.profiles([part], log))
    pieces = split([part], count, None, most, measure)
    assert all(piece.size > 0 for piece in pieces)
    assert (pieces[0].start, pieces[-1].end) == (part.start, part.end)
    assert all(one.end == two.start for one, two in itertools.pairwise(pieces))


# ---------------------------------------------------------------------------------------------- in a broker


def test_headers_are_what_the_log_has(topics: Topics) -> None:
    topic = topics.create("headers", 3)
    for partition in range(2):
        for size in (10, 5000, 100, 20_000):
            topics.produce(topic, [b"x" * size] * (partition + 3), partition)
    discovery = Discovery(options_for(topics, topic))
    partitions = [TopicPartition(topic, number) for number in range(3)]
    logs = {tp: spans(topics.bootstrap, tp) for tp in partitions[:2]}
    for at in range(0, 12, 2):
        found = discovery.densities(dict.fromkeys(partitions, at))
        assert found == {
            tp: size / (behind - base) for tp, log in logs.items() for base, behind, size in log if base <= at < behind
        }
    discovery.close()
    assert discovery.densities({TopicPartition("nowhere", 0): 0}) == {}
    discovery.close()
    assert batch_density(None, 0) is None
    assert batch_density(memoryview(b"x" * 27), 0) is None


def test_a_byte_limit_on_triggers(topics: Topics) -> None:
    topic = topics.create("bytes", 2)
    for _ in range(60):
        topics.produce(topic, [b"x" * 1000] * 20, partition=0)
    for _ in range(60):
        topics.produce(topic, [b"x" * 100] * 20, partition=1)
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="200k")
    batches = query.drain()
    assert 6 <= batches <= 10, "1.3 MB in steps of 200 KB"
    assert len(query.values()) == 2400


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_a_byte_limit_on_triggers_of_older_formats(topics: Topics, version: str, codec: str) -> None:
    topic = topics.create("old-bytes", config={"message.format.version": version})
    values = [random.Random(seed).randbytes(1000) for seed in range(200)]
    for at in range(0, 200, 10):
        topics.produce(topic, values[at : at + 10], config={"compression.type": codec, "linger.ms": 100})
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="50k")
    assert 3 <= query.drain() <= 6, "200 KB in steps of 50 KB"
    assert query.values() == values


def test_no_answer_is_told_once(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    discovery = Discovery(options_for(topics, "nowhere"))
    for _ in range(2):
        assert discovery.densities({TopicPartition("nowhere", 0): 0}) == {}
    discovery.close()
    assert caplog.text.count("no record batch of Set(nowhere-0) tells its size") == 1


def test_both_limits_hold(topics: Topics) -> None:
    topic = topics.create("both")
    for _ in range(20):
        topics.produce(topic, [b"x" * 1000] * 10)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert Stream(topics.bootstrap, **options, maxBytesPerTrigger="1m", maxOffsetsPerTrigger=50).drain() == 4
    by_bytes = Stream(topics.bootstrap, **options, maxBytesPerTrigger=50_000, maxOffsetsPerTrigger=190)
    assert 4 <= by_bytes.drain() <= 6


def test_tasks_by_bytes(topics: Topics) -> None:
    topic = topics.create("by-bytes", 2)
    topics.produce(topic, [b"x" * 10_000] * 90, partition=0)
    topics.produce(topic, [b"x" * 100] * 90, partition=1)
    batch = Batch(topics.bootstrap)
    assert [partition for partition, _, _ in batch.tasks(subscribe=topic, minPartitions=6)] == [0, 0, 0, 1, 1, 1]
    tasks = batch.tasks(subscribe=topic, maxBytesPerPartition="100k")
    assert len([task for task in tasks if task[0] == 0]) == 9
    assert len([task for task in tasks if task[0] == 1]) == 1
    by_both = batch.tasks(subscribe=topic, maxBytesPerPartition="1g", minPartitions=6)
    assert [partition for partition, _, _ in by_both] == [0, 0, 0, 0, 0, 1]
    assert batch.values(subscribe=topic, maxBytesPerPartition="100k") == [b"x" * 10_000] * 90 + [b"x" * 100] * 90

"""Test that every row goes to one partition, in order, the same that Kafka's own producer would choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.producer import TopicLayout
from kafkalog.client.producer.arrow.arrow_rows import Chunk, chunks
from kafkalog.client.producer.arrow.partition_rows import Group, RowError, RowPartitioner
from kafkalog.client.producer.partitioner import partition_for_key
from kafkalog.protocol.errors import UnknownTopicOrPartitionError
from spark_kafkalog.sink.sink_columns import SinkColumns
from tests.spark_kafkalog.sink.support import batch_of, columns

SCHEMA = columns("key", "value", "topic", "partition")
LAYOUTS = {"a": 3, "b": 1, "c": 7}


def layout(topic: str, partition: int | None = None) -> TopicLayout:
    count = LAYOUTS[topic]
    if partition is not None and partition >= count:
        raise UnknownTopicOrPartitionError(f"topic {topic} has no partition {partition}, its last is {count - 1}")
    return TopicLayout(count, list(range(count)))


def partitioner(topic: str | None = None, batch_bytes: int = 200, **more: Any) -> RowPartitioner:
    return RowPartitioner(layout, topic=topic, batch_bytes=batch_bytes, random=lambda: Random(1), **more)


def chunk_of(rows: Sequence[Any]) -> Chunk:
    (chunk,) = chunks([batch_of(SCHEMA, list(rows))], SinkColumns.of(SCHEMA, None), 1 << 30)
    return chunk


def spread(target: RowPartitioner, rows: Sequence[Any]) -> list[Group]:
    chunk = chunk_of(rows)
    return list(target.groups(chunk, chunk.record_sizes()))


def where(groups: list[Group], rows: int) -> list[tuple[str, int]]:
    """Each row's topic and partition; fails where a row has none or two, or where order is lost."""
    found: dict[int, tuple[str, int]] = {}
    for topic, partition, numbers in groups:
        assert numbers.tolist() == sorted(numbers.tolist())
        for number in numbers.tolist():
            assert number not in found
            found[number] = (topic, partition)
    assert len({(group.topic, group.partition) for group in groups}) == len(groups)
    assert sorted(found) == list(range(rows))
    return [found[number] for number in range(rows)]


a_row = st.sampled_from(list(LAYOUTS)).flatmap(
    lambda topic: st.fixed_dictionaries(
        {
            "topic": st.just(topic),
            "key": st.none() | st.binary(max_size=12),
            "value": st.none() | st.binary(max_size=60),
            "partition": st.none() | st.integers(0, LAYOUTS[topic] - 1),
        }
    )
)


@given(st.lists(st.lists(a_row, min_size=1, max_size=30), min_size=1, max_size=4))
def test_rules(batches: list[list[dict[str, Any]]]) -> None:
    target = partitioner()
    for rows in batches:
        for row, (topic, partition) in zip(rows, where(spread(target, rows), len(rows)), strict=True):
            assert topic == row["topic"]
            if row["partition"] is not None:
                assert partition == row["partition"]
            elif row["key"] is not None:
                assert partition == partition_for_key(row["key"], LAYOUTS[topic])
            else:
                assert 0 <= partition < LAYOUTS[topic]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40))
def test_rows_without_a_key_fill_a_batch_and_move_on(sizes: list[int]) -> None:
    """Runs of rows in one partition: as many as fit a batch, across chunks too, then another partition."""
    target = partitioner("c", batch_bytes=200)
    rows = [{"value": b"x" * size} for size in sizes]
    places: list[tuple[str, int]] = []
    used: list[int] = []
    for at in range(0, len(rows), 7):
        part = rows[at : at + 7]
        places += where(spread(target, part), len(part))
        used += chunk_of(part).record_sizes().tolist()
    runs: list[list[int]] = []
    for at, size in enumerate(used):
        if at and places[at] == places[at - 1]:
            runs[-1].append(size)
        else:
            runs.append([size])
    for run, behind in zip(runs, [*runs[1:], None], strict=True):
        assert sum(run) <= 200 or len(run) == 1
        if behind is not None:
            assert sum(run) + behind[0] > 200


def test_rows_without_a_key_reach_all_partitions() -> None:
    target = partitioner("c", batch_bytes=100)
    rows = [{"value": b"x" * 50}] * 700
    counts = Counter(partition for _, partition in where(spread(target, rows), len(rows)))
    assert sorted(counts) == list(range(7))


def test_partitions_without_a_leader_are_avoided() -> None:
    target = RowPartitioner(lambda topic, partition=None: TopicLayout(4, [2]), topic="t", batch_bytes=100)
    rows = [{"value": b"x" * 50}] * 20
    assert set(where(spread(target, rows), 20)) == {("t", 2)}
    # A key's partition is its own, whoever leads it.
    keyed = [{"key": b"%d" % n, "value": b""} for n in range(50)]
    assert {partition for _, partition in where(spread(target, keyed), 50)} == {0, 1, 2, 3}


def test_keys_may_be_ignored() -> None:
    target = partitioner("c", batch_bytes=10_000, ignore_keys=True)
    rows = [{"key": b"%d" % n, "value": b"x"} for n in range(50)]
    assert len({partition for _, partition in where(spread(target, rows), 50)}) == 1


def test_the_option_overrides_the_column() -> None:
    rows = [{"topic": "a", "value": b""}, {"topic": None, "value": b""}]
    assert {topic for topic, _ in where(spread(partitioner("b"), rows), 2)} == {"b"}


def test_what_is_refused() -> None:
    good: dict[str, Any] = {"topic": "a", "value": b""}
    with pytest.raises(RowError, match="null topic present in the data"):
        spread(partitioner(), [good, {"value": b""}])
    with pytest.raises(RowError, match="Invalid partition: -4"):
        spread(partitioner(), [good | {"partition": -4}])
    with pytest.raises(UnknownTopicOrPartitionError, match="topic a has no partition 3, its last is 2"):
        spread(partitioner(), [{**good, "partition": 3}, {"topic": "c", "value": b"", "partition": 6}])

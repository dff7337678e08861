"""Test that filters never lose a row, and are exact if Spark need not check the rows again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from kafkalog.client.types import TopicPartition
from spark_kafkalog.columns import source_schema
from spark_kafkalog.compat import pushed_filters
from spark_kafkalog.driver.batch_reader import FilteringBatchReader
from spark_kafkalog.offsets import OffsetRange, Offsets
from spark_kafkalog.options.limits import LATEST
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.plan.filter_bounds import narrow, push
from spark_kafkalog.values.typed_readers import takes_filters
from tests.spark_kafkalog.topics import T0_MS, Topics
from tests.spark_kafkalog.without_spark import Batch, chosen, make_source, read_partitions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = {"topic": 0, "partition": 1, "offset": 2, "timestamp": 3}
Row = tuple[str, int, int, datetime]


def at(milliseconds: float) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def holds(condition: Filter, row: Row) -> bool:
    """Return the result of a filter for a row, as Spark computes it."""
    if isinstance(condition, Not):
        return not holds(condition.child, row)
    column: Any = row[COLUMNS[condition.attribute[0]]]  # type: ignore[attr-defined]
    value: Any = getattr(condition, "value", None)
    match condition:
        case EqualTo() | EqualNullSafe():
            return bool(column == value)
        case GreaterThan():
            return bool(column > value)
        case GreaterThanOrEqual():
            return bool(column >= value)
        case LessThan():
            return bool(column < value)
        case LessThanOrEqual():
            return bool(column <= value)
        case In():
            return column in value
        case IsNotNull():
            return True
        case StringStartsWith():
            return bool(column.startswith(value))
        case _:
            return False


class Log:
    """Records by partition: the timestamps (ms), in the order of their offsets from `first` on."""

    def __init__(self, partitions: Mapping[TopicPartition, list[int]], first: int) -> None:
        self.partitions = partitions
        self.first = first

    def rows(self, part: OffsetRange) -> list[Row]:
        times = self.partitions[part.tp]
        return [(*part.tp, offset, at(times[offset - self.first])) for offset in range(part.start, part.end)]

    def ranges(self) -> list[OffsetRange]:
        return [OffsetRange(tp, self.first, self.first + len(times)) for tp, times in sorted(self.partitions.items())]

    def __call__(self, asked: Mapping[TopicPartition, int]) -> Offsets:
        return {tp: self.offset(tp, time) for tp, time in asked.items()}

    def offset(self, tp: TopicPartition, time: int) -> int:
        times = self.partitions[tp]
        if time == LATEST:
            return self.first + len(times)
        return next((self.first + n for n, each in enumerate(times) if each >= time), -1)


NUMBERS = st.integers(-2, 14)
MOMENTS = st.builds(at, st.integers(0, 40).map(lambda quarter: quarter / 4))
COMPARISONS = st.sampled_from([EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])


def on(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    simple = st.builds(lambda kind, value: kind((column,), value), COMPARISONS, values)
    among = st.builds(lambda some: In((column,), tuple(some)), st.lists(values, max_size=3))
    return simple | among | st.just(IsNotNull((column,))) | simple.map(Not)


FILTERS = st.one_of(
    on("partition", NUMBERS),
    on("offset", NUMBERS),
    on("timestamp", MOMENTS),
    on("topic", st.sampled_from("abc")),
    st.just(StringStartsWith(("topic",), "a")),
)
LOGS = st.builds(
    Log,
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 2)), st.lists(st.integers(0, 10), max_size=8)
    ),
    st.integers(0, 5),
)


@given(LOGS, st.lists(FILTERS, max_size=4))
def test_rows_are_those_that_spark_would_leave(log: Log, filters: list[Filter]) -> None:
    bounds, remaining = push(filters)
    read = [row for part in narrow(log.ranges(), bounds, log) for row in log.rows(part)]
    wanted = [row for part in log.ranges() for row in log.rows(part) if all(holds(each, row) for each in filters)]
    assert [row for row in read if all(holds(each, row) for each in remaining)] == wanted


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("offset",), 5),
        In(("offset",), (5,)),
        LessThan(("offset",), 5),
        In(("partition",), (1, 2, 9)),
        GreaterThan(("partition",), 1),
        EqualTo(("topic",), "a"),
        IsNotNull(("offset",)),
    ],
)
def test_what_spark_need_not_look_at_again(condition: Filter) -> None:
    assert push([condition])[1] == []


@pytest.mark.parametrize(
    "condition",
    [
        In(("offset",), (5, 9)),
        GreaterThan(("timestamp",), at(5)),
        LessThan(("timestamp",), at(5)),
        IsNotNull(("timestamp",)),
        IsNull(("offset",)),
        EqualTo(("value",), b"x"),
        EqualTo(("offset", "a"), 1),
        EqualTo(("offset",), True),
        EqualTo(("timestamp",), datetime(2020, 1, 1)),
        Not(EqualTo(("offset",), 5)),
    ],
)
def test_what_spark_looks_at_again(condition: Filter) -> None:
    assert push([condition])[1] == [condition]


def test_what_is_not_wanted_is_not_read(topics: Topics) -> None:
    topic = topics.create("pushed", 3)
    for partition in range(3):
        records = [{"value": b"%d" % n, "timestamp": T0_MS + n} for n in range(100)]
        topics.produce(topic, records, partition)
    servers = {"kafka.bootstrap.servers": topics.bootstrap}
    options = SourceOptions.parse({**servers, "subscribe": topic, "filterPushdown": "true"})
    schema = source_schema(include_headers=False)

    def tasks(*filters: Filter) -> list[tuple[int, int, int]]:
        reader: Any = FilteringBatchReader(options, schema)
        list(reader.pushFilters(list(filters)))
        return [(task.partition, task.start, task.end) for task in reader.partitions()]

    assert tasks(EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 30)) == [(1, 30, 100)]
    assert tasks(LessThan(("offset",), 0)) == []
    assert tasks(GreaterThan(("timestamp",), at(T0_MS + 89))) == [(0, 90, 100), (1, 90, 100), (2, 90, 100)]
    assert tasks(GreaterThan(("timestamp",), at(T0_MS + 99))) == []
    assert tasks() == [(0, 0, 100), (1, 0, 100), (2, 0, 100)]
    reader = FilteringBatchReader(options, schema)
    list(reader.pushFilters([EqualTo(("partition",), 2), EqualTo(("offset",), 7)]))
    batches = read_partitions(reader, reader.partitions(), schema)
    assert [row["value"] for batch in batches for row in batch.to_pylist()] == [b"7"]


def test_messages_without_timestamps_are_read_whole(topics: Topics) -> None:
    """Their leaders find nothing by time. Messages of before the format was set may have timestamps."""
    topic = topics.create("old-pushed", config={"message.format.version": "0.9.0"})
    topics.produce(topic, [b"1", b"2"])
    servers = {"kafka.bootstrap.servers": topics.bootstrap}
    reader: Any = FilteringBatchReader(
        SourceOptions.parse({**servers, "subscribe": topic, "filterPushdown": "true"}), source_schema(False)
    )
    list(reader.pushFilters([GreaterThan(("timestamp",), at(T0_MS))]))
    assert [(task.start, task.end) for task in reader.partitions()] == [(0, 2)]
    late = {"startingTimestamp": T0_MS, "startingOffsetsByTimestampStrategy": "latest"}
    assert Batch(topics.bootstrap).rows(chosen("value"), subscribe=topic, **late) == []
    with pytest.raises(OptionsError, match="No offset matched"):
        Batch(topics.bootstrap).rows(chosen("value"), subscribe=topic, startingTimestamp=T0_MS)


def test_a_reader_takes_filters_if_they_stay_with_it(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark refuses a reader that takes them while its own setting is off."""

    def takes(**options: Any) -> bool:
        return takes_filters(make_source(topics.bootstrap, {"subscribe": topic, **options}).reader(schema))

    topic, schema = topics.create("plain"), source_schema(include_headers=False)
    monkeypatch.setattr(pushed_filters, "stay_with_their_scan", lambda: True)
    assert takes(filterPushdown=True)
    assert not takes()
    monkeypatch.setattr(pushed_filters, "stay_with_their_scan", lambda: False)
    assert not takes(filterPushdown=True)
    assert Batch(topics.bootstrap).rows(chosen("value"), subscribe=topic, filterPushdown=True) == []

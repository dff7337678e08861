"""Tests of loads from a real broker into a directory and into HDFS, without Spark."""

from __future__ import annotations

import io
import logging
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkalog.protocol.errors import UnknownTopicOrPartitionError
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.load import compact, job, write
from spark_kafkalog.load.formats import SCHEMA, read_raw
from spark_kafkalog.load.layout.file_names import NO_HOUR, hour_path, staging_path
from spark_kafkalog.load.layout.published import LostRaceError
from spark_kafkalog.load.load_options import parse_time, parse_until
from spark_kafkalog.load.load_plan import LostOffsetsError, PlanError, RecreatedTopicError
from spark_kafkalog.load.runner import ThreadRunner
from spark_kafkalog.options.limits import AtEnd, AtOffsets
from spark_kafkalog.options.parsing import parse_offsets
from tests.spark_kafkalog.load.loading import Loading, data_files, expected, read_table
from tests.spark_kafkalog.topics import CODECS, T0_MS, numbers


def test_loads_one_after_another(loading: Loading) -> None:
    topic = loading.topics.create("load", 3)
    sent = loading.topics.produce(topic, numbers(500))
    first = loading.load(topic)
    assert first.document is not None
    assert (first.document.load, first.document.previous_load, first.document.rows) == (0, None, 500)
    assert loading.check(topic) == expected(sent)
    assert loading.load(topic).document is None
    sent += loading.topics.produce(topic, numbers(300, 500))
    second = loading.load(topic)
    assert second.document is not None
    assert (second.document.load, second.document.previous_load, second.document.rows) == (1, 0, 300)
    assert loading.check(topic) == expected(sent)
    assert loading.names(topic) == ["load=0000000000", "load=0000000001"]
    assert loading.files.list(staging_path(loading.path(topic))) == []


def test_all_columns(local_loading: Loading) -> None:
    topic = local_loading.topics.create("columns")
    headers = [("a", b"1"), ("a", None)]
    record = {"key": b"k", "value": b"v", "timestamp": T0_MS, "headers": headers}
    local_loading.topics.produce(topic, [record, {"value": None}], partition=0)
    local_loading.load(topic)
    rows = [
        row
        for file in data_files(local_loading.files, local_loading.path(topic))
        for row in read_table(local_loading.files, file).to_pylist()
    ]
    first, second = sorted(rows, key=lambda row: row["offset"])
    assert first.pop("timestamp").timestamp() * 1000 == T0_MS
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"], second["offset"]) == (None, None, None, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(local_loading: Loading, codec: str) -> None:
    topic = local_loading.topics.create("codec")
    sent = local_loading.topics.produce(topic, numbers(200), config={"compression.type": codec})
    local_loading.load(topic)
    assert local_loading.check(topic) == expected(sent)


def test_times_out_of_order_go_to_the_directories_of_their_hours(loading: Loading) -> None:
    topic = loading.topics.create("hours", 2)
    times = [T0_MS + (index * 7919 % 30) * 3_600_000 for index in range(400)]
    sent = loading.topics.produce(topic, [{"value": b"%d" % each, "timestamp": each} for each in times])
    loading.load(topic, min_splits=5)
    assert loading.check(topic) == expected(sent)
    for file in data_files(loading.files, loading.path(topic)):
        for moment in read_table(loading.files, file)["timestamp"].to_pylist():
            assert f"/date={moment:%Y-%m-%d}/hour={moment:%H}/" in file


def test_more_hours_than_files_may_be_open(local_loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "MOST_OPEN", 3)
    topic = local_loading.topics.create("open")
    sent = []
    # Batches of their own: the hours come back after others were written.
    for round_ in range(4):
        records = [{"value": b"%d" % hour, "timestamp": T0_MS + hour * 3_600_000} for hour in range(6)]
        sent += local_loading.topics.produce(topic, records * 2, partition=0, config={"batch.num.messages": 3 + round_})
    monkeypatch.setattr("spark_kafkalog.executor.batch_pieces.PIECE_ROWS", 4)
    local_loading.load(topic, min_splits=1)
    assert local_loading.check(topic) == expected(sent)
    assert len(data_files(local_loading.files, local_loading.path(topic))) > 6


def test_files_are_closed_at_their_size(local_loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = local_loading.topics.create("size")
    dice = random.Random(1)
    values = [b"%06d" % index + dice.randbytes(60_000) for index in range(100)]
    sent = local_loading.topics.produce(topic, values, partition=0, config={"batch.num.messages": 5})
    monkeypatch.setattr("spark_kafkalog.executor.batch_pieces.PIECE_ROWS", 10)
    monkeypatch.setattr("spark_kafkalog.load.formats.ROW_GROUP_BYTES", 50_000)
    local_loading.load(topic, most_file_bytes=1, min_splits=1)
    assert local_loading.check(topic) == expected(sent)
    assert len(data_files(local_loading.files, local_loading.path(topic))) > 2


def test_a_partition_that_is_cut_into_splits(loading: Loading) -> None:
    topic = loading.topics.create("splits")
    sent = loading.topics.produce(topic, numbers(1000), partition=0)
    loaded = loading.load(topic, min_splits=2, most_split_records=130)
    assert loaded.document is not None
    assert len(loaded.document.files) == 8
    assert loading.check(topic) == expected(sent)


def record_batch(times: list[int], size: int = 0) -> pa.RecordBatch:
    """Records with these timestamps (ms) and values of some size."""
    millis = pa.array([each * 1000 for each in times], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    given = {"timestamp": millis, "value": pa.array([bytes(size)] * len(times), pa.binary())}
    columns = [given.get(field.name, pa.nulls(len(times), field.type)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def test_records_without_a_time() -> None:
    found = dict(write.by_hour(record_batch([-1, 5, -1000, 253_402_300_800_000, 1 << 52])))
    assert {hour: part.num_rows for hour, part in found.items()} == {None: 4, 0: 1}
    assert hour_path(None) == NO_HOUR


def test_rows_of_an_hour_that_wait_keep_no_others_in_memory() -> None:
    """A late record in each batch: its hour's file gathers them until the task ends."""
    found = dict(write.by_hour(record_batch([T0_MS] * 500 + [0] + [T0_MS] * 499, size=1000)))
    assert found[0].num_rows == 1
    assert found[0].get_total_buffer_size() < 5000


def test_times_that_no_calendar_has(local_loading: Loading) -> None:
    """Producers may send such timestamps. There are no more files than partitions, and they can be compacted."""
    topic = local_loading.topics.create("wild")
    for _ in range(2):
        for time_ in (1 << 62, 253_402_300_800_000, (1 << 63) - 1, 1 << 55):
            local_loading.topics.produce(topic, [{"value": b"x", "timestamp": time_}], partition=0)
        loaded = local_loading.load(topic, min_splits=1)
        assert loaded.document is not None
        (file,) = loaded.document.files
        assert (file.path.rpartition("/")[0], file.rows) == (NO_HOUR, 4)
    compact.compact(local_loading.files, local_loading.path(topic), lambda: ThreadRunner(1))
    (path,) = data_files(local_loading.files, local_loading.path(topic))
    table = pq.read_table(io.BytesIO(local_loading.files.read(path)), columns=["offset"])
    assert table["offset"].to_pylist() == list(range(8))


def test_partitions_that_come_later_are_loaded_from_their_beginning(loading: Loading) -> None:
    topic = loading.topics.create("grows")
    sent = loading.topics.produce(topic, numbers(10))
    loading.load(topic)
    loading.topics.add_partitions(topic, 3)
    sent += loading.topics.produce(topic, numbers(50, 10))
    loading.load(topic, first=AtEnd(-2))
    assert loading.check(topic) == expected(sent)


def test_from_latest_remembers_where_that_was(local_loading: Loading) -> None:
    topic = local_loading.topics.create("latest", 2)
    local_loading.topics.produce(topic, numbers(10), partition=1)
    first = local_loading.load(topic, first=AtEnd(-1))
    assert first.document is not None
    assert (first.document.rows, first.document.ends) == (0, {0: 0, 1: 10})
    assert local_loading.load(topic, first=AtEnd(-1)).document is None
    sent = local_loading.topics.produce(topic, numbers(10, 10))
    local_loading.load(topic, first=AtEnd(-1))
    assert local_loading.check(topic) == expected(sent)


def test_from_latest_of_an_empty_topic_remembers_it(local_loading: Loading) -> None:
    topic = local_loading.topics.create("latest-empty", 2)
    first = local_loading.load(topic, first=AtEnd(-1))
    assert first.document is not None
    assert (first.document.rows, first.document.ends) == (0, {0: 0, 1: 0})
    sent = local_loading.topics.produce(topic, numbers(10))
    local_loading.load(topic, first=AtEnd(-1))
    assert local_loading.check(topic) == expected(sent)


def test_from_and_until_times(local_loading: Loading) -> None:
    topic = local_loading.topics.create("times")
    records = [{"value": b"%d" % index, "timestamp": T0_MS + index * 1000} for index in range(20)]
    sent = expected(local_loading.topics.produce(topic, records, partition=0))
    start, until = parse_time("--from-timestamp", str(T0_MS + 5000)), parse_until("2023-11-14T22:13:32Z")
    local_loading.load(topic, start=start, until=until)
    assert sorted(local_loading.check(topic)) == [(0, offset) for offset in range(5, 12)]
    local_loading.load(topic, until=parse_until(f'{{"{topic}":{{"0":15}}}}'))
    local_loading.load(topic, until=parse_until(str(T0_MS + 999_000)))
    assert local_loading.check(topic) == {where: value for where, value in sent.items() if where[1] >= 5}


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 0),
        ({"first": AtEnd(-1)}, 5),
        ({"until": parse_until(str(T0_MS + 5000))}, 0),
        ({"start": parse_time("--from-timestamp", str(T0_MS + 3000))}, 3),
        ({"start": parse_time("--from-timestamp", str(T0_MS + 5000))}, 5),
    ],
)
@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_topic_that_grows_while_a_load_is_planned(
    local_loading: Loading, options: dict[str, Any], first: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers do not wait: records come between any two questions to the brokers. None is left out, and none that
    was asked for to stay out gets in."""
    topic = local_loading.topics.create("growing")
    records = [{"value": b"%d" % index, "timestamp": T0_MS + index * 1000} for index in range(10)]
    local_loading.topics.produce(topic, records[:5], partition=0)
    lookup, count = Discovery.lookup, 0

    def then_it_grows(self: Discovery, timestamps: Any) -> Any:
        nonlocal count
        found = lookup(self, timestamps)
        count += bool(timestamps)
        if timestamps and count == asked:
            local_loading.topics.produce(topic, records[5:], partition=0)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Discovery, "lookup", then_it_grows)
        local_loading.load(topic, **options)
    assert count >= asked
    if "until" in options:
        assert sorted(local_loading.check(topic)) == [(0, offset) for offset in range(5)]
    local_loading.load(topic)
    # With --from latest, the end that was found before or after the records came.
    begin = 10 if "first" in options and asked == 1 else first
    assert sorted(local_loading.check(topic)) == [(0, offset) for offset in range(begin, 10)]


def test_offsets_are_not_loaded_again_into_the_same_directory(local_loading: Loading) -> None:
    topic = local_loading.topics.create("again")
    local_loading.topics.produce(topic, numbers(10))
    local_loading.load(topic)
    with pytest.raises(PlanError, match=r"offsets \[3, 10\) are loaded already"):
        local_loading.load(topic, start=AtOffsets(parse_offsets("--from-offsets", f'{{"{topic}":{{"0":3}}}}')))
    other = Loading(local_loading.topics, local_loading.target + "-again")
    other.load(topic, start=AtOffsets(parse_offsets("--from-offsets", f'{{"{topic}":{{"0":3}}}}')))
    assert sorted(other.check(topic)) == [(0, offset) for offset in range(3, 10)]


def test_a_recreated_topic(loading: Loading) -> None:
    topic = loading.topics.create("recreated", 2)
    first = loading.topics.produce(topic, numbers(20))
    loading.load(topic)
    loading.topics.delete(topic)
    loading.topics.create_named(topic, 2)
    second = loading.topics.produce(topic, numbers(40, 100))
    with pytest.raises(RecreatedTopicError, match="--on-recreated-topic restart"):
        loading.load(topic)
    loaded = loading.load(topic, restart_recreated=True)
    assert loaded.document is not None
    assert loaded.document.restarted
    assert loaded.document.rows == len(second)
    third = loading.topics.produce(topic, numbers(5, 200))
    loading.load(topic)
    from tests.spark_kafkalog.load.loading import rows_of

    loads = [rows_of(loading.files, f"{loading.path(topic)}/load=000000000{number}") for number in range(3)]
    assert loads == [expected(first), expected(second), expected(third)]


def test_a_topic_that_is_recreated_while_it_is_loaded(local_loading: Loading) -> None:
    topic = local_loading.topics.create("meanwhile")
    local_loading.topics.produce(topic, numbers(20))

    class Recreating(ThreadRunner):
        def run(self, work: Any, tasks: Any) -> Any:
            found = super().run(work, tasks)
            local_loading.topics.delete(topic)
            local_loading.topics.create_named(topic)
            return found

    with pytest.raises(RecreatedTopicError, match="while it was loaded"):
        job.load_topic(local_loading.options(topic), topic, lambda: Recreating(1))
    assert local_loading.history(topic) == []


def test_data_loss(loading: Loading) -> None:
    topic = loading.topics.create("loss", 2)
    sent = expected(loading.topics.produce(topic, numbers(20), partition=0))
    loading.load(topic)
    sent |= expected(loading.topics.produce(topic, numbers(20, 20), partition=0))
    loading.topics.delete_records(topic, 0, 28)
    with pytest.raises(LostOffsetsError, match=rf"8 offsets .* {topic}-0 \[20, 28\)"):
        loading.load(topic)
    loaded = loading.load(topic, fail_on_data_loss=False)
    assert loaded.document is not None
    assert [(each.partition, each.start, each.end) for each in loaded.document.lost] == [(0, 20, 28)]
    assert loading.check(topic) == {where: value for where, value in sent.items() if where[1] not in range(20, 28)}


def test_data_loss_while_a_task_runs(local_loading: Loading) -> None:
    """Offsets that were there when the load was planned, and are gone when they are read."""
    topic = local_loading.topics.create("loss-later")
    local_loading.topics.produce(topic, numbers(20), partition=0)

    class Losing(ThreadRunner):
        def run(self, work: Any, tasks: Any) -> Any:
            local_loading.topics.delete_records(topic, 0, 6)
            return super().run(work, tasks)

    options = local_loading.options(topic, fail_on_data_loss=False, min_splits=1)
    loaded = job.load_topic(options, topic, lambda: Losing(1))
    assert loaded.document is not None
    assert [(each.partition, each.start, each.end) for each in loaded.document.lost] == [(0, 0, 6)]
    assert sorted(local_loading.check(topic)) == [(0, offset) for offset in range(6, 20)]


def test_what_is_lost_is_known_whatever_is_logged(local_loading: Loading) -> None:
    """An application that logs errors only publishes the same document."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        test_data_loss_while_a_task_runs(local_loading)
    finally:
        root.setLevel(level)


def test_a_topic_that_is_deleted_while_it_is_loaded(local_loading: Loading) -> None:
    """Also where losses do not fail the load: what was loaded of such a topic is nothing to go on from."""
    topic = local_loading.topics.create("deleted")
    local_loading.topics.produce(topic, numbers(20))

    class Deleting(ThreadRunner):
        def run(self, work: Any, tasks: Any) -> Any:
            local_loading.topics.delete(topic)
            return super().run(work, tasks)

    options = local_loading.options(topic, fail_on_data_loss=False)
    with pytest.raises(UnknownTopicOrPartitionError):
        job.load_topic(options, topic, lambda: Deleting(1))
    assert local_loading.history(topic) == []


def test_concurrent_loaders_fence_each_other(loading: Loading) -> None:
    """A plans, B publishes, A must not: neither as the same load nor as the next."""
    topic = loading.topics.create("race")
    sent = loading.topics.produce(topic, numbers(20))

    class Overtaken(ThreadRunner):
        def run(self, work: Any, tasks: Any) -> Any:
            found = super().run(work, tasks)
            loading.topics.produce(topic, numbers(5, 20))
            assert loading.load(topic).document is not None
            return found

    with pytest.raises(LostRaceError, match="has published nothing"):
        job.load_topic(loading.options(topic), topic, lambda: Overtaken(1))
    assert [each.load for each in loading.history(topic)] == [0]
    assert len(loading.check(topic)) == len(sent) + 5
    assert loading.files.list(staging_path(loading.path(topic))) == []


def test_a_task_that_fails_publishes_nothing(loading: Loading) -> None:
    topic = loading.topics.create("fails")
    loading.topics.produce(topic, numbers(20))

    class Failing(ThreadRunner):
        def run(self, work: Any, tasks: Any) -> Any:
            def failing(task: Any) -> Any:
                work(task)
                raise OSError("the disk is full")

            return super().run(failing, tasks)

    with pytest.raises(OSError, match="the disk is full"):
        job.load_topic(loading.options(topic), topic, lambda: Failing(1))
    assert loading.history(topic) == []
    assert loading.files.list(staging_path(loading.path(topic))) == []
    loading.load(topic)
    assert len(loading.check(topic)) == 20


def test_a_task_that_runs_twice_counts_once(loading: Loading) -> None:
    """Spark repeats tasks, and with speculation runs them side by side."""
    topic = loading.topics.create("twice", 2)
    sent = loading.topics.produce(topic, numbers(60))

    class Repeating(ThreadRunner):
        def run(self, work: Any, tasks: Any) -> Any:
            super().run(work, tasks)
            return super().run(work, tasks)

    job.load_topic(loading.options(topic), topic, lambda: Repeating(2))
    assert loading.check(topic) == expected(sent)


def test_avro(loading: Loading) -> None:
    import fastavro

    topic = loading.topics.create("avro")
    record = {"key": b"k", "value": b"v", "timestamp": T0_MS, "headers": [("a", b"1")]}
    loading.topics.produce(topic, [record, {"value": None}, *numbers(2500)], partition=0)
    loaded = loading.load(topic, format="avro")
    assert loaded.document is not None
    rows: list[dict[str, Any]] = []
    for file in data_files(loading.files, loading.path(topic)):
        for row in fastavro.reader(io.BytesIO(loading.files.read(file))):
            assert isinstance(row, dict)
            rows.append(row)
    rows.sort(key=lambda row: row["offset"])
    assert [row["offset"] for row in rows] == list(range(2502)) == list(range(loaded.document.rows))
    assert (rows[0]["key"], rows[0]["headers"]) == (b"k", [{"key": "a", "value": b"1"}])
    assert rows[0]["timestamp"].timestamp() * 1000 == T0_MS
    assert [row["value"] for row in rows[1:]] == [None, *numbers(2500)]


def test_raw(loading: Loading) -> None:
    topic = loading.topics.create("raw")
    values = [b"a\nb", None, b"", bytes(range(256)), b"\xff\xff\xff\xff"]
    loading.topics.produce(topic, [{"value": value} for value in values], partition=0)
    loading.load(topic, format="raw", min_splits=1)
    (file,) = data_files(loading.files, loading.path(topic))
    data = loading.files.read(file)
    assert list(read_raw(io.BytesIO(data))) == values
    with pytest.raises(EOFError):
        list(read_raw(io.BytesIO(data[:-1])))


def test_a_directory_has_one_format(local_loading: Loading) -> None:
    topic = local_loading.topics.create("format")
    local_loading.topics.produce(topic, numbers(3))
    local_loading.load(topic, format="raw")
    with pytest.raises(PlanError, match="are raw, not parquet: go on with --format raw"):
        local_loading.load(topic)


def test_an_unknown_topic(local_loading: Loading) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        local_loading.load("no-such-topic")

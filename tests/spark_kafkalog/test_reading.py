"""Tests of what is read and refused, without a JVM, so that there can be many."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalog.client.admin.quotas import QuotaAdmin
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, ConfigError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import UnknownTopicOrPartitionError
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.executor import range_reader as reader_module
from spark_kafkalog.executor.batch_pieces import PIECE_ROWS, cut_pieces
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.offsets import Position
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.topics import CODECS, T0_MS, Topics, numbers
from tests.spark_kafkalog.without_spark import Batch, chosen
from tests.support.kafkalog_broker import KafkalogBroker

if TYPE_CHECKING:
    from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse


@pytest.fixture
def batch(broker_address: str) -> Batch:
    return Batch(broker_address)


# ---------------------------------------------------------------------------------------------- columns


def test_every_column(batch: Batch, topics: Topics) -> None:
    topic = topics.create("columns", 2)
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("b", None), ("a", b"")]},
        {"key": None, "value": b"", "headers": []},
        {"key": b"", "value": None},
        {"key": bytes(range(256)), "value": "größe".encode()},
    ]
    topics.produce(topic, [{**record, "timestamp": T0_MS + at} for at, record in enumerate(records)], partition=1)
    rows = batch.rows(subscribe=topic, includeHeaders=True)
    for row in rows:
        row["timestamp"] = row["timestamp"].timestamp()
    assert rows == [
        {
            "key": record["key"],
            "value": record["value"],
            "topic": topic,
            "partition": 1,
            "offset": offset,
            "timestamp": pytest.approx((T0_MS + offset) / 1000, abs=1e-4),
            "timestampType": 0,
            # No headers are null, never an empty list.
            "headers": [{"key": name, "value": value} for name, value in record.get("headers", [])] or None,
        }
        for offset, record in enumerate(records)
    ]


def test_log_append_time(batch: Batch, topics: Topics) -> None:
    topic = topics.create("append-time", config={"message.timestamp.type": "LogAppendTime"})
    before = time.time()
    topics.produce(topic, [{"value": b"v", "timestamp": T0_MS}])
    (row,) = batch.rows(subscribe=topic)
    assert row["timestampType"] == 1
    assert before - 1 <= row["timestamp"].timestamp() <= time.time() + 1


@pytest.mark.parametrize("columns", [("value",), ("offset", "key"), ("headers", "topic"), ("timestamp",)])
def test_only_chosen_columns(batch: Batch, topics: Topics, columns: tuple[str, ...]) -> None:
    topic = topics.create("pruned")
    topics.produce(topic, [{"key": b"k", "value": b"x", "headers": [("h", b"1")], "timestamp": T0_MS}])
    (whole,) = batch.rows(subscribe=topic, includeHeaders=True)
    (row,) = batch.rows(chosen(*columns), subscribe=topic)
    assert row == {name: whole[name] for name in columns}
    assert tuple(row) == columns


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(batch: Batch, topics: Topics, codec: str) -> None:
    topic = topics.create(codec, 3)
    sent = topics.produce(
        topic,
        [b"%d" % number * 20 for number in range(20_000)],
        config={"compression.type": codec, "batch.size": 65536},
    )
    rows = batch.rows(chosen("partition", "offset", "value"), subscribe=topic)
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == sorted(
        (each.partition, each.offset, each.value) for each in sent
    )


def test_a_record_larger_than_a_fetch(batch: Batch, topics: Topics) -> None:
    topic = topics.create("large", config={"max.message.bytes": "8000000"})
    values = [b"a" * 10, b"b" * 6_000_000, b"c" * 10]
    topics.produce(topic, values, config={"message.max.bytes": 8_000_000})
    assert batch.values(subscribe=topic, **{"kafka.max.partition.fetch.bytes": 1000}) == values


def test_batches_have_a_sensible_size(batch: Batch, topics: Topics) -> None:
    """Many fetches, many pieces; neither tiny batches for the JVM nor all in one."""
    topic = topics.create("sizes")
    topics.produce(topic, [b"%0100d" % number for number in range(200_000)])
    batches = batch.batches(chosen("value", "offset"), subscribe=topic)
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(200_000))
    assert all(each.num_rows <= PIECE_ROWS for each in batches)
    assert 4 < len(batches) < 60


# ---------------------------------------------------------------------------------------------- what to read


def test_subscribe_pattern_and_assign(batch: Batch, topics: Topics) -> None:
    stem = topics.name("pattern")
    for name in ("a", "b", "c"):
        topics.create_named(f"{stem}-{name}", 2)
        topics.produce(f"{stem}-{name}", [name.encode()], partition=0)
        topics.produce(f"{stem}-{name}", [name.encode() * 2], partition=1)
    assert batch.values(subscribePattern=f"{stem}-[ab]") == [b"a", b"aa", b"b", b"bb"]
    assert batch.values(subscribePattern=f"{stem}-$") == []
    found = batch.values(subscribePattern=f"(?i){stem.upper()}-")
    assert found == batch.values(subscribePattern=f"^{stem}-.*$"), "it is found anywhere in a name, as in Spark"
    assert set(found) > {b"a", b"aa", b"b", b"bb"}
    assert batch.values(subscribe=f"{stem}-a, {stem}-c") == [b"a", b"aa", b"c", b"cc"]
    assert batch.values(assign=json.dumps({f"{stem}-a": [1], f"{stem}-b": [0, 7]})) == [b"aa", b"b"]


def test_a_topic_that_does_not_exist(batch: Batch) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        batch.values(subscribe="no-such-topic")


def test_a_broker_that_is_not_there() -> None:
    options = {"kafka.default.api.timeout.ms": "300", "fetchOffset.numRetries": 1}
    with pytest.raises(ClientTimeoutError, match=r"127\.0\.0\.1:1"):
        Batch("127.0.0.1:1").values(subscribe="t", **options)


def test_a_name_that_no_host_has() -> None:
    with pytest.raises(ConfigError, match=r"no host that can be found: .*no-such-host"):
        Batch("no-such-host.invalid:9092").values(subscribe="t")


def test_offsets_are_asked_for_again(start_broker: Callable[..., KafkalogBroker]) -> None:
    """`fetchOffset.numRetries` and `fetchOffset.retryIntervalMs`: a broker that starts again is waited for."""
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create("retried")
    topics.produce(topic, numbers(3))
    impatient = {"kafka.default.api.timeout.ms": 200, "fetchOffset.retryIntervalMs": 50}
    broker.kill()
    with pytest.raises(ClientTimeoutError):
        Discovery(options_for(topics, topic, **impatient, **{"fetchOffset.numRetries": 1})).latest(Position({}))
    starting = threading.Thread(target=broker.start)
    starting.start()
    try:
        discovery = Discovery(options_for(topics, topic, **impatient, **{"fetchOffset.numRetries": 200}))
        assert list(discovery.latest(Position({})).offsets.values()) == [3]
        discovery.close()
    finally:
        starting.join()


def test_a_reader_above_its_quota_waits(start_broker: Callable[..., KafkalogBroker]) -> None:
    """The broker sends 20,000 bytes at once and nothing until its time is over, for longer than time-outs here."""
    broker = start_broker({"quota.window.num": "3"})
    topics = Topics(broker.bootstrap)
    topic = topics.create("limited")
    values = [b"%04d" % number * 250 for number in range(60)]
    for value in values:
        topics.produce(topic, [value])
    with QuotaAdmin(ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})) as quotas:
        quotas.alter({"client-id": "limited"}, {"consumer_byte_rate": 10_000})
    options = {"kafka.client.id": "limited", "kafka.request.timeout.ms": 1000, "kafka.default.api.timeout.ms": 1500}
    assert Batch(broker.bootstrap).values(subscribe=topic, **options) == values


# ---------------------------------------------------------------------------------------------- from where, to where


def test_offsets(batch: Batch, topics: Topics) -> None:
    topic = topics.create("offsets", 2)
    topics.produce(topic, numbers(10), partition=0)
    topics.produce(topic, numbers(10, 100), partition=1)

    def read(start: tuple[int, int], end: tuple[int, int]) -> list[bytes | None]:
        return batch.values(
            subscribe=topic,
            startingOffsets=json.dumps({topic: {"0": start[0], "1": start[1]}}),
            endingOffsets=json.dumps({topic: {"0": end[0], "1": end[1]}}),
        )

    assert read((3, -2), (5, 1)) == [b"3", b"4", b"100"]
    assert read((10, 8), (-1, -1)) == [b"108", b"109"]
    assert batch.values(subscribe=topic) == [*numbers(10), *numbers(10, 100)]
    with pytest.raises(OptionsError, match="you must specify all TopicPartitions"):
        batch.values(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}}))
    with pytest.raises(OptionsError, match="can't be latest for batch queries"):
        batch.values(subscribe=topic, startingOffsets="latest")
    with pytest.raises(OptionsError, match="lies beyond its end offset"):
        read((11, 0), (-1, -1))


def test_timestamps(batch: Batch, topics: Topics) -> None:
    topic = topics.create("timestamps", 2)
    for partition in (0, 1):
        # Of partition 1 only half as many: the second half of the times has no match there.
        count = 10 - 5 * partition
        records = [{"value": value, "timestamp": T0_MS + 10 * at} for at, value in enumerate(numbers(count))]
        topics.produce(topic, records, partition)

    def read(**options: Any) -> list[bytes | None]:
        return batch.values(subscribe=topic, **options)

    assert read(startingTimestamp=T0_MS + 35, endingTimestamp=T0_MS + 41) == [b"4", b"4"]
    by_partition = json.dumps({topic: {"0": T0_MS + 80, "1": T0_MS + 40}})
    assert read(startingOffsetsByTimestamp=by_partition) == [b"8", b"9", b"4"]
    assert read(endingOffsetsByTimestamp=by_partition) == [*numbers(8), *numbers(4)]
    assert read(endingTimestamp=T0_MS + 70) == [*numbers(7), *numbers(5)]
    with pytest.raises(OptionsError, match="No offset matched from request of topic-partition"):
        read(startingTimestamp=T0_MS + 70)
    assert read(startingTimestamp=T0_MS + 70, startingOffsetsByTimestampStrategy="latest") == numbers(3, 7)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [100, 20]),
        ({"minPartitions": 5}, [25, 25, 25, 25, 20]),
        ({"maxRecordsPerPartition": 30}, [25, 25, 25, 25, 20]),
        ({"minPartitions": 1}, [100, 20]),
    ],
)
def test_tasks(batch: Batch, topics: Topics, options: dict[str, int], sizes: list[int]) -> None:
    topic = topics.create("tasks", 3)
    topics.produce(topic, numbers(100), partition=0)
    topics.produce(topic, numbers(20, 100), partition=1)
    assert [end - start for _, start, end in batch.tasks(subscribe=topic, **options)] == sizes
    assert batch.values(subscribe=topic, **options) == numbers(120)


# ---------------------------------------------------------------------------------------------- ranges


def options_for(topics: Topics, topic: str, **options: Any) -> SourceOptions:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic}
    return SourceOptions.parse(given | {name: str(value) for name, value in options.items()})


def read(topics: Topics, topic: str, start: int, end: int, **options: Any) -> list[bytes]:
    batches = read_range(TopicPartition(topic, 0), start, end, options_for(topics, topic, **options), ("value",))
    return [value for each in batches for value in each["value"].to_pylist()]


def test_lost_records(topics: Topics) -> None:
    topic = topics.create("lost")
    topics.produce(topic, numbers(10))
    topics.delete_records(topic, 0, 6)
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE.*\[2, 6\) of .*log now begins at 6"):
        read(topics, topic, 2, 9)
    assert read(topics, topic, 2, 9, failOnDataLoss="false") == numbers(3, 6)
    assert read(topics, topic, 2, 5, failOnDataLoss="false") == []
    assert read(topics, topic, 6, 9) == numbers(3, 6)


def test_a_range_behind_the_end_of_the_log(topics: Topics) -> None:
    """As after a topic was deleted and created again."""
    topic = topics.create("short")
    topics.produce(topic, numbers(3))
    with pytest.raises(DataLossError, match="COULD_NOT_READ_OFFSET_RANGE"):
        read(topics, topic, 5, 9)
    assert read(topics, topic, 5, 9, failOnDataLoss="false") == []


def test_a_deleted_topic(topics: Topics) -> None:
    topic = topics.create("gone")
    topics.produce(topic, numbers(3))
    quick = {"kafkaConsumer.pollTimeoutMs": 500, "kafka.retry.backoff.ms": 1, "kafka.retry.backoff.max.ms": 1}
    options = options_for(topics, topic, **quick)
    topics.delete(topic)
    for mark in (None, "J2zBe_1rTjG0dC4QO1bWWg"):
        with pytest.raises(DataLossError, match="was deleted"):
            list(read_range(TopicPartition(topic, 0), 0, 3, options, ("value",), topic=mark))
    assert read(topics, topic, 0, 3, failOnDataLoss="false", **quick) == []


def test_records_that_do_not_come(topics: Topics) -> None:
    topic = topics.create("waits")
    topics.produce(topic, numbers(3))
    with pytest.raises(TimeoutError, match=r"Cannot fetch record for offset 3 of .* in 700 milliseconds"):
        read(topics, topic, 1, 9, **{"kafkaConsumer.pollTimeoutMs": 700, "kafka.fetch.max.wait.ms": 100})


def test_a_range_that_is_still_being_written(topics: Topics) -> None:
    topic = topics.create("grows")
    topics.produce(topic, numbers(3))
    writing = threading.Timer(0.3, lambda: topics.produce(topic, numbers(6, 3)))
    writing.start()
    try:
        assert read(topics, topic, 1, 9) == numbers(8, 1)
    finally:
        writing.join()


def test_a_reader_that_is_not_read_to_its_end(topics: Topics) -> None:
    """As LIMIT does: its thread and its connection end with it."""
    topic = topics.create("limit")
    topics.produce(topic, [b"x" * 1000] * 20_000)
    before = threading.active_count()
    batches = read_range(TopicPartition(topic, 0), 0, 20_000, options_for(topics, topic), ("value",))
    assert next(batches).num_rows
    batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_a_worker_does_not_keep_the_connections_of_every_query_that_it_has_seen(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Cluster] = []

    def make(config: ClientConfig) -> Cluster:
        made.append(Cluster(config))
        return made[-1]

    monkeypatch.setattr(reader_module, "Cluster", make)
    topic = topics.create("clients")
    topics.produce(topic, numbers(3))
    for number in range(20):
        for _ in range(2):
            assert read(topics, topic, 0, 3, **{"kafka.client.id": f"client-{number}"}) == numbers(3)
    assert len(made) == 20, "a second task of a query takes what the first one has left"
    closed = [is_closed(each) for each in made]
    kept = closed.count(False)
    assert 0 < kept < 20
    assert closed == [True] * (20 - kept) + [False] * kept, "those that were used last are kept"


def is_closed(cluster: Cluster) -> bool:
    try:
        cluster.metadata(refresh=True)
    except RuntimeError:
        return True
    return False


class Scripted:
    """Reads offsets [start, 9) of a partition whose leader answers a fetch as `answer` says for its offset.

    A record batch, b"" for nothing new, or None for no answer at all.
    """

    def __init__(
        self, answer: Callable[[int], bytes | None], start: int = 0, options: Mapping[str, str] | None = None
    ) -> None:
        from kafkalog.protocol.messages.fetch import FetchRequest
        from kafkalog.protocol.messages.metadata import MetadataRequest
        from tests.support.scripted import ScriptedBroker, metadata

        self._answer = answer
        self.server = ScriptedBroker({FetchRequest: self._fetch})
        self.server.handlers[MetadataRequest] = lambda request: metadata({1: self.server}, {("t", 0): 1})
        given = {"kafka.bootstrap.servers": self.server.address, "subscribe": "t", **(options or {})}
        self.reading = reader_module._RangeReader(TopicPartition("t", 0), start, 9, SourceOptions.parse(given))

    def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

        records = self._answer(request.topics[0].partitions[0].fetch_offset)
        if records is None:
            return None
        data = PartitionData(partition_index=0, high_watermark=9, log_start_offset=0, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def __enter__(self) -> Iterator[list[bytes]]:
        """The values of each record batch."""
        self.server.__enter__()
        return (batch["value"].to_pylist() for batch in self.reading.batches(("value",)))

    def __exit__(self, *error: Any) -> None:
        self.reading.close()
        self.server.__exit__(*error)


def records_at(offset: int, count: int = 1) -> bytes:
    from kafkalog.records.batch import Record, encode_batch

    records = [Record(at, 0, None, b"%d" % at) for at in range(offset, offset + count)]
    return bytes(encode_batch(records, base_offset=offset))


def test_a_reader_that_ends_does_not_wait_for_the_leader() -> None:
    """The next chunk has been asked for when the reader is closed; it never comes."""
    asked, ended = threading.Event(), threading.Event()
    waited_for: list[bool] = []

    def answer(offset: int) -> bytes | None:
        if offset == 0:
            return records_at(0)
        asked.set()
        waited_for.append(ended.wait(20))
        return None

    scripted = Scripted(answer)
    with scripted as batches:
        assert next(batches) == [b"0"]
        assert asked.wait(20)
        scripted.reading.close()
        assert not waited_for
        ended.set()


def test_a_leader_that_answers_with_what_was_read_before() -> None:
    """The reader does not ask for ever, nor does it take such records."""
    until = time.monotonic() + 20

    def answer(offset: int) -> bytes | None:
        return records_at(0, 2) if time.monotonic() < until else records_at(2, 7)

    options = {"kafkaConsumer.pollTimeoutMs": "300"}
    with (
        Scripted(answer, start=2, options=options) as batches,
        pytest.raises(TimeoutError, match="Cannot fetch record"),
    ):
        next(batches)


@pytest.mark.parametrize("mark", [None, "J2zBe_1rTjG0dC4QO1bWWg"])
def test_a_broker_that_does_not_know_its_topics_yet(mark: str | None) -> None:
    """It has just started, and has not heard from its controller: no record is lost by that."""
    from kafkalog.protocol.messages.metadata import MetadataRequest
    from tests.support.scripted import metadata

    options = {"failOnDataLoss": "false", "kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "1"}
    scripted = Scripted(lambda offset: records_at(offset, 9), options=options)
    known = scripted.server.handlers[MetadataRequest]
    left = iter(range(30))
    scripted.server.handlers[MetadataRequest] = lambda request: (
        known(request) if next(left, None) is None else metadata({1: scripted.server}, {})
    )
    with scripted as batches:
        scripted.reading.check_topic(mark)
        assert next(batches) == numbers(9)


def test_the_time_that_spark_takes_for_rows_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafkaConsumer.pollTimeoutMs` is how long records are waited for."""
    late = 0.0
    asked: list[int] = []

    def answer(offset: int) -> bytes | None:
        asked.append(offset)
        return records_at(offset, 1 if offset == 0 else 8) if asked.count(offset) > (offset > 0) else b""

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late, sleep=time.sleep)
    monkeypatch.setattr(reader_module, "time", clock)
    with Scripted(answer, options={"kafkaConsumer.pollTimeoutMs": "30000"}) as batches:
        assert next(batches) == [b"0"]
        late = 100.0
        assert next(batches) == numbers(8, 1)
    assert asked == [0, 1, 1]


def test_what_was_asked_for_in_advance_is_asked_for_again() -> None:
    """The leader was away while Spark was busy with the rows before, and it is back."""
    asked: list[int] = []

    def answer(offset: int) -> bytes | None:
        asked.append(offset)
        if offset == 0:
            return records_at(0)
        return records_at(1, 8) if gave_up else None

    gave_up = False
    options = {"kafkaConsumer.pollTimeoutMs": "1000", "kafka.request.timeout.ms": "100", "kafka.fetch.max.wait.ms": "1"}
    scripted = Scripted(answer, options=options)
    with scripted as batches:
        assert next(batches) == [b"0"]
        assert scripted.reading._under_way is not None
        assert isinstance(scripted.reading._under_way[1].exception(20), ClientTimeoutError)
        gave_up = True
        assert next(batches) == numbers(8, 1)


# ---------------------------------------------------------------------------------------------- pieces


def test_pieces_are_whole_batches() -> None:
    from kafkalog.records.batch import Record, encode_batch, iter_headers

    batches = [
        bytes(encode_batch([Record(base + at, 0, None, b"x" * size) for at in range(3)], base_offset=base))
        for base, size in ((10, 50), (20, 500_000), (30, 500_000), (40, 10), (50, 1_000_000), (60, 10))
    ]
    data = memoryview(b"".join(batches))
    pieces = cut_pieces(data[:-1], 10)
    assert b"".join(piece.records for piece in pieces) == b"".join(batches[:-1]), "the last batch is cut off"
    bases = [[header.base_offset for _, header in iter_headers(piece.records)] for piece in pieces]
    assert bases == [[10, 20], [30, 40], [50]]
    assert [piece.behind for piece in pieces] == [23, 43, 53]
    assert cut_pieces(data[:30], 10) == []

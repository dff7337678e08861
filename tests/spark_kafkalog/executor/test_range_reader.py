"""Tests of reading a range without a JVM: lost and deleted records, slow leaders, connections, pieces."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import TopicPartition
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.executor import range_reader as reader_module
from spark_kafkalog.executor.batch_pieces import cut_pieces
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.executor.support import options_for
from tests.spark_kafkalog.topics import Topics, numbers

if TYPE_CHECKING:
    from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse


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


def test_a_deleted_topic(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "GONE_AFTER_S", 0.5)
    topic = topics.create("gone")
    topics.produce(topic, numbers(3))
    quick = {"kafka.retry.backoff.ms": 1, "kafka.retry.backoff.max.ms": 1}
    options = options_for(topics, topic, **quick)
    topics.delete(topic)
    for mark in (None, "J2zBe_1rTjG0dC4QO1bWWg"):
        with pytest.raises(DataLossError, match="was deleted"):
            list(read_range(TopicPartition(topic, 0), 0, 3, options, ("value",), topic=mark))
    assert read(topics, topic, 0, 3, failOnDataLoss="false", **quick) == []


@pytest.fixture
def hurrying(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return options of a reader for which each look at the clock is ten seconds after the one before.

    So answers may take as long as they do.
    """
    clock = itertools.count(time.monotonic(), 10.0)
    monkeypatch.setattr(reader_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    return {"kafkaConsumer.pollTimeoutMs": 60_000, "kafka.fetch.max.wait.ms": 100}


def test_a_log_that_ends_within_the_range(topics: Topics, hurrying: dict[str, Any]) -> None:
    """As Spark's source does (`KafkaDataConsumer`): after a log was cut off, the query can go on without the rest."""
    topic = topics.create("cut-off")
    topics.produce(topic, numbers(3))
    with pytest.raises(DataLossError, match=r"\[3, 9\) of .*: the log has ended at 3 for 60000 milliseconds"):
        read(topics, topic, 1, 9, **hurrying)
    assert read(topics, topic, 1, 9, failOnDataLoss="false", **hurrying) == numbers(2, 1)


def test_records_of_a_transaction_that_does_not_end(topics: Topics, hurrying: dict[str, Any]) -> None:
    """They are no loss: they may be committed yet."""
    topic = topics.create("waits")
    topics.produce(topic, numbers(3))
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)
    hurrying |= {"failOnDataLoss": "false", "kafka.isolation.level": "read_committed"}
    with pytest.raises(ClientTimeoutError, match=r"Cannot fetch record for offset 3 of .* in 60000 milliseconds"):
        read(topics, topic, 1, 4, **hurrying)
    producer.abort_transaction(60)


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
    before = set(threading.enumerate())
    batches = read_range(TopicPartition(topic, 0), 0, 20_000, options_for(topics, topic), ("value",))
    assert next(batches).num_rows
    batches.close()
    assert set(threading.enumerate()) <= before


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


def test_a_worker_logs_in_by_the_secret_that_the_driver_found(tmp_path: Path) -> None:
    """Workers serve one query after another, and a secret may be replaced in between."""
    secrets = tmp_path / "secrets.properties"
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.config.providers": "file",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": f"${{file:{secrets}:alice}}",
    }
    used = []
    for password in ("first", "second", "second"):
        secrets.write_text(f"alice={password}\n")
        options = pickle.loads(pickle.dumps(SourceOptions.parse(given)))
        secrets.unlink()
        assert password not in repr(options)
        used.append(reader_module._cluster(options))
    assert [cluster.config.credentials for cluster in used] == [
        ("alice", "first"),
        ("alice", "second"),
        ("alice", "second"),
    ]
    assert used[1] is used[2]


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
        self,
        answer: Callable[[int], bytes | None],
        start: int = 0,
        options: Mapping[str, str] | None = None,
        topic: str | None = None,
    ) -> None:
        from tests.spark_kafkalog.load.scripted import broker_of_topic

        self._answer = answer
        self.server = broker_of_topic(self._fetch)
        given = {"kafka.bootstrap.servers": self.server.address, "subscribe": "t", **(options or {})}
        self.reading = reader_module._RangeReader(
            TopicPartition("t", 0), start, 9, SourceOptions.parse(given), topic=topic
        )

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
        pytest.raises(ClientTimeoutError, match="Cannot fetch record"),
    ):
        next(batches)


@pytest.mark.parametrize("mark", [None, "J2zBe_1rTjG0dC4QO1bWWg"])
def test_a_broker_that_does_not_know_its_topics_yet(mark: str | None) -> None:
    """It has just started, and has not heard from its controller: no record is lost by that."""
    from kafkalog.protocol.messages.metadata import MetadataRequest
    from tests.support.scripted import metadata

    options = {"failOnDataLoss": "false", "kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "1"}
    scripted = Scripted(lambda offset: records_at(offset, 9), options=options, topic=mark)
    known = scripted.server.handlers[MetadataRequest]
    left = iter(range(30))
    scripted.server.handlers[MetadataRequest] = lambda request: (
        known(request) if next(left, None) is None else metadata({1: scripted.server}, {})
    )
    with scripted as batches:
        scripted.reading.check_topic()
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


def test_what_was_asked_for_in_advance_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader was away while Spark was busy with the rows before, and it is back."""
    # Seconds beside the time-out. Only what is asked for in advance has none.
    patience, gave_up = 60.0, False

    def answer(offset: int) -> bytes | None:
        nonlocal patience
        if offset == 0:
            patience = 0.0
            return records_at(0)
        return records_at(1, 8) if gave_up else None

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + patience)
    monkeypatch.setattr(reader_module, "time", clock)
    options = {"kafkaConsumer.pollTimeoutMs": "1000", "kafka.request.timeout.ms": "100", "kafka.fetch.max.wait.ms": "1"}
    scripted = Scripted(answer, options=options)
    with scripted as batches:
        assert next(batches) == [b"0"]
        assert scripted.reading._under_way is not None
        assert isinstance(scripted.reading._under_way[1].exception(20), ClientTimeoutError)
        patience, gave_up = 60.0, True
        assert next(batches) == numbers(8, 1)


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

"""Test that a task does not read records of a topic that was created again under the name of the planned one."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.protocol.schema import ZERO_UUID
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.executor import range_reader as reader_module
from spark_kafkalog.executor.range_reader import read_range
from spark_kafkalog.offsets import topic_id_of, topic_mark
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.scripted import ScriptedBroker, api_versions, metadata

OLD, NEW = UUID(int=1), UUID(int=2)
QUICK = {"kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "1"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "RECREATED_AFTER_S", 0.1)


def test_ids_and_marks() -> None:
    assert topic_id_of(topic_mark(OLD)) == OLD
    assert topic_id_of(None) == topic_id_of("no mark") == topic_id_of("") == ZERO_UUID


def mark_of(topics: Topics, name: str) -> str:
    with Cluster(ClientConfig.from_dict({"bootstrap.servers": topics.bootstrap})) as cluster:
        mark = topic_mark(cluster.topic(name).topic_id)
    assert mark is not None
    return mark


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_created_again_while_it_is_read(topics: Topics, fails: bool) -> None:
    """Its new log holds the offsets that the task has yet to read, and the connection has not broken."""
    topic = topics.create("again")
    topics.produce(topic, [b"old" * 3000] * 1000)
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "failOnDataLoss": str(fails).lower()}
    options = SourceOptions.parse({**given, **QUICK, "kafka.max.partition.fetch.bytes": "100000"})
    tp, mark = TopicPartition(topic, 0), mark_of(topics, topic)
    reading = read_range(tp, 0, 1000, options, ("value",), topic=mark)
    read = next(reading)["value"].to_pylist()
    topics.delete(topic)
    topics.create_named(topic)
    topics.produce(topic, [b"new" * 3000] * 1000)
    if fails:
        with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE.*was deleted and created again"):
            list(reading)
        return
    for batch in reading:
        read += batch["value"].to_pylist()
    assert 0 < len(read) < 1000
    assert set(read) == {b"old" * 3000}


class Described:
    """A broker of one topic that speaks Fetch up to `fetch`, and describes the topic with the ids of `told` in turn.

    The last one stays.
    """

    def __init__(self, fetch: int, told: list[UUID]) -> None:
        self._told = told
        self.reads: dict[UUID, FetchResponse] = {}
        """The responses to requests of versions with ids."""
        self.by_name = FetchResponse()
        self.server = ScriptedBroker({FetchRequest: self._fetch, ListOffsetsRequest: self._offsets})
        self.server.handlers[MetadataRequest] = self._describe
        self.server.handlers[ApiVersionsRequest] = lambda request: api_versions(FETCH=fetch)

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        answer = metadata({1: self.server}, {("t", 0): 1})
        answer.topics[0].topic_id = self._told.pop(0) if len(self._told) > 1 else self._told[0]
        return answer

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        topic = request.topics[0]
        return self.by_name if topic.topic else self.reads[topic.topic_id]

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        end = 0 if request.topics[0].partitions[0].timestamp == -2 else 9
        found = ListOffsetsPartitionResponse(partition_index=0, offset=end)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    def read(self) -> list[bytes]:
        given = {"kafka.bootstrap.servers": self.server.address, "subscribe": "t", **QUICK}
        options = SourceOptions.parse(given)
        with self.server:
            batches = read_range(TopicPartition("t", 0), 0, 9, options, ("value",), topic=topic_mark(OLD))
            return [value for batch in batches for value in batch["value"].to_pylist()]


def fetched(records: bytes = b"", code: int = 0, *, topic_id: UUID = ZERO_UUID) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=code, high_watermark=9, log_start_offset=0, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=topic_id, partitions=[data])])


def nine() -> bytes:
    from kafkalog.records.batch import Record, encode_batch

    return bytes(encode_batch([Record(at, 0, None, b"%d" % at) for at in range(9)], base_offset=0))


def test_records_are_fetched_by_the_id() -> None:
    broker = Described(16, [OLD])
    broker.reads[OLD] = fetched(nine(), topic_id=OLD)
    assert broker.read() == numbers(9)


def test_a_leader_that_does_not_know_the_id_while_metadata_has_another() -> None:
    broker = Described(16, [OLD, OLD, NEW])
    broker.reads[OLD] = fetched(code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=OLD)
    with pytest.raises(DataLossError, match="was deleted and created again"):
        broker.read()


def test_an_offset_out_of_the_range_of_the_new_topic() -> None:
    """A leader before Kafka 3.1 reads topics by their names."""
    broker = Described(12, [OLD, OLD, NEW])
    broker.by_name = fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(DataLossError, match="was deleted and created again"):
        broker.read()


def test_a_broker_that_lags_tells_the_id_of_before() -> None:
    """One answer is no proof: no record is lost."""
    broker = Described(16, [NEW, NEW, OLD])
    broker.reads[OLD] = fetched(nine(), topic_id=OLD)
    assert broker.read() == numbers(9)

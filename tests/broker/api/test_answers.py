"""Test that well-formed requests with meaningless values get a response, in every version of every API."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from broker.api.errors import Answering, ClientGoneError
from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode, InvalidRequestError
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.schema import STRING, Struct
from tests.kafkalog.protocol.support import class_name, request_classes, sample, versions
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import create_topic, exchange, receive_frame

DEADLINE_S = 60
LONG = "x" * 32_767
NOT_UTF8 = "~" * 32_000
"""Bytes that the test replaces in a frame by ones that are no UTF-8. Each becomes three when it is repeated."""
SHORTENED = 1024


@pytest.fixture(scope="module")
def own(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.coordinator.rebalance.protocols": "classic,consumer"}
    with KafkalogBroker(tmp_path_factory.mktemp("answers"), settings) as broker:
        with broker.connect() as sock:
            create_topic(sock, "t", 1)
        yield broker


def with_strings(value: Any, version: int, text: str | None) -> Any:
    """The structure with `text` in place of its strings: null only where that may be."""
    for field in type(value).fields:
        if version not in field.versions:
            continue
        present = getattr(value, field.name)
        if field.type is STRING:
            if text is not None:
                setattr(value, field.name, [text] if field.is_array else text)
            elif version in field.nullable:
                setattr(value, field.name, None)
        elif isinstance(field.type, type) and present is not None:
            for inner in present if field.is_array else [present]:
                if isinstance(inner, Struct):
                    with_strings(inner, version, text)
    return value


def usable(message: Any, version: int) -> Any:
    """Without what a client is rightly not answered for, or made to wait."""
    names = {field.name for field in type(message).fields if version in field.versions}
    if "acks" in names:
        message.acks = 1
    if "max_wait_ms" in names:
        message.max_wait_ms = 0
    for name in ("timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"):
        if name in names:
            setattr(message, name, 1000)
    return message


@pytest.mark.parametrize("text", [LONG, NOT_UTF8, None], ids=["long", "not UTF-8", "null"])
@pytest.mark.parametrize("cls", request_classes(), ids=class_name)
def test_strings_of_any_length_are_answered(own: KafkalogBroker, cls: type[Any], text: str | None) -> None:
    served = serves(own)
    for version in versions(cls):
        if (cls.api_key, version) not in served:
            continue
        message = usable(with_strings(sample(cls, version), version, text), version)
        with own.connect() as sock:
            sock.settimeout(DEADLINE_S)
            frame = encode_request(message, version, 7, "c")
            sock.sendall(frame.replace(NOT_UTF8.encode(), b"\xff" * len(NOT_UTF8)))
            answer = receive_frame(sock)
            assert answer, f"{cls.__name__} v{version} was not answered: {own.logged()[-3000:]}"
            correlation_id, _ = decode_response(cls, version, answer)
            assert correlation_id == 7


def serves(broker: KafkalogBroker) -> set[tuple[int, int]]:
    with broker.connect() as sock:
        ranges = exchange(sock, ApiVersionsRequest(), 0).api_keys
    return {(each.api_key, version) for each in ranges for version in range(each.min_version, each.max_version + 1)}


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "bad",
    [MetadataRequestTopic(name=None), MetadataRequestTopic(name="t", topic_id=uuid.UUID(int=7))],
    ids=["null", "id"],
)
def test_metadata_by_id_is_refused_where_it_was_not_known(
    own: KafkalogBroker, version: int, bad: MetadataRequestTopic
) -> None:
    with own.connect() as sock:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t"), bad], allow_auto_topic_creation=False)
        answer = exchange(sock, request, version)
    codes = [topic.error_code for topic in answer.topics]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert [topic.name for topic in answer.topics] == ["t", bad.name or ""]


def test_what_is_named_twice_is_answered_once(own: KafkalogBroker) -> None:
    """The answer may be 1,000 times as long as the name."""
    name = "twice"
    with own.connect() as sock:
        create_topic(sock, name)
        topics = [MetadataRequestTopic(name=name), MetadataRequestTopic(name="none"), MetadataRequestTopic(name=name)]
        metadata = exchange(sock, MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        assert [topic.name for topic in metadata.topics] == [name, "none"]
        wanted = [TopicRequest(name=name, partition_indexes=[0, 0]), TopicRequest(name=name, partition_indexes=[0, 1])]
        producers = exchange(sock, DescribeProducersRequest(topics=wanted), 0)
        indexes = [[each.partition_index for each in topic.partitions] for topic in producers.topics]
        assert indexes == [[0], [1]]


def test_a_good_topic_is_answered_beside_one_with_a_name_that_is_too_long(own: KafkalogBroker) -> None:
    def topic(name: str) -> CreatableTopic:
        return CreatableTopic(name=name, num_partitions=1, replication_factor=1)

    with own.connect() as sock:
        request = CreateTopicsRequest(topics=[topic("good"), topic(LONG)], timeout_ms=1000)
        good, bad = exchange(sock, request, 7).topics
        assert (good.name, good.error_code) == ("good", ErrorCode.NONE)
        assert (bad.name, bad.error_code) == (LONG, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert len(bad.error_message) <= SHORTENED


def test_an_error_of_one_entry_is_its_result_and_a_client_that_left_ends_the_request() -> None:
    result = CreatableTopicResult(name="t")
    with Answering(result):
        raise InvalidRequestError("no")
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "no")
    result = CreatableTopicResult(name="t")
    with pytest.raises(ClientGoneError), Answering(result):
        raise ClientGoneError
    assert result.error_code == ErrorCode.NONE

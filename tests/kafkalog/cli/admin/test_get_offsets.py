"""Test `kafkalog get-offsets`."""

from __future__ import annotations

import uuid

import pytest

from kafkalog.cli.admin.get_offsets import parse_rules, parse_topics
from kafkalog.cli.shared.client_options import UsageError
from kafkalog.client.errors import ConfigError
from kafkalog.client.producer import Producer, ProducerConfig
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.command import Ended, call
from tests.support.scripted import ScriptedBroker, api_versions, metadata

DEADLINE_S = 60


@pytest.fixture(scope="module")
def name(broker_address: str) -> str:
    """Create two topics: partition 0 of the first has three records, the second one none."""
    name = f"offsets-{uuid.uuid4().hex[:8]}"
    for topic, partitions in ((name, "11"), (f"{name}-empty", "1")):
        call("topics", "create", "--bootstrap-server", broker_address, "--topic", topic, "--partitions", partitions)
    with Producer(ProducerConfig.from_dict({"bootstrap.servers": broker_address})) as producer:
        for timestamp in (100, 300, 200):
            producer.send(name, b"x", partition=0, timestamp=timestamp).result(DEADLINE_S)
    return name


def get(broker_address: str, *words: str, check: int = 0) -> Ended:
    return call("get-offsets", "--bootstrap-server", broker_address, *words, check=check)


@pytest.mark.parametrize(
    ("time", "offset"),
    [
        ((), 3),
        (("--time", "latest"), 3),
        (("--time", "-1"), 3),
        (("--time", "earliest"), 0),
        (("--time", "-2"), 0),
        (("--time", "max-timestamp"), 1),
        (("--time", "earliest-local"), 0),
        (("--time", "0"), 0),
        (("--time", "150"), 1),
        (("--time", "latest-tiered"), None),
        (("--time", "301"), None),
    ],
)
def test_times(broker_address: str, name: str, time: tuple[str, ...], offset: int | None) -> None:
    expected = [] if offset is None else [f"{name}:0:{offset}"]
    assert get(broker_address, "--topic", name, "--partitions", "0", *time).out == expected


def test_partitions_are_in_the_order_of_kafkas_tool(broker_address: str, name: str) -> None:
    numbers = [0, 1, 10, *range(2, 10)]
    assert get(broker_address, "--topic", name).out == [f"{name}:{number}:{3 * (number == 0)}" for number in numbers]
    assert get(broker_address, "--topic", f"{name}.*", "--partitions", "0").out == [f"{name}:0:3", f"{name}-empty:0:0"]
    rules = f"{name}:9-,{name}:-1,{name}-(empty|x)"
    assert get(broker_address, "--topic-partitions", rules).out == [
        f"{name}:0:3", f"{name}:10:0", f"{name}:9:0", f"{name}-empty:0:0",
    ]  # fmt: skip


def test_what_is_refused(broker_address: str, name: str) -> None:
    none = get(broker_address, "--topic", "nowhere", check=1)
    assert none.err == "kafkalog: Could not match any topic-partitions with the specified filters\n"
    internal = "__(consumer_offsets|transaction_state)"
    get(broker_address, "--topic-partitions", internal, "--exclude-internal-topics", check=1)
    both = get(broker_address, "--topic", name, "--topic-partitions", name, check=2)
    assert "--topic-partitions cannot be used with --topic or --partitions" in both.err
    assert "expected ms since 1970" in get(broker_address, "--time", "yesterday", check=2).err
    assert "expected ms since 1970" in get(broker_address, "--time", "-6", check=2).err


def test_rules() -> None:
    def selected(rules: str, topic: str) -> list[int] | None:
        partitions = parse_rules(rules)(topic)
        return None if partitions is None else [number for number in range(6) if partitions(number)]

    # The examples of Kafka's tool: topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3.
    rules = "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3"
    found = {topic: selected(rules, topic) for topic in ("topic1", "topic2", "topic3", "topic4", "topic5", "topic6")}
    assert found == {
        "topic1": [1], "topic2": [0, 1, 2], "topic3": [0, 1, 2, 3, 4, 5], "topic4": [5], "topic5": [0, 1, 2],
        "topic6": None,
    }  # fmt: skip
    assert selected(":2", "any") == [2]
    assert selected("any:", "any") == [0, 1, 2, 3, 4, 5]
    assert selected("a:1,.:3,b", "a") == [1, 3]
    with pytest.raises(UsageError, match="a:x"):
        parse_rules("a:x")
    with pytest.raises(ConfigError):
        parse_rules("(")
    with pytest.raises(UsageError, match="a:9"):
        parse_rules(f"a:{'9' * 5000}")
    for wrong in ("0,x", "1_0"):
        with pytest.raises(UsageError, match=f"--partitions {wrong}"):
            parse_topics(None, wrong)


def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer with offset 7, and for partition 1 that its format has no such offset."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=7, error_code=43 if each.partition_index else 0
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_a_partition_that_fails_hides_no_other() -> None:
    leaders = dict.fromkeys([("words", 0), ("words", 1)], 1)
    broker = ScriptedBroker(
        {MetadataRequest: lambda request: metadata({1: broker}, leaders), ListOffsetsRequest: answer}
    )
    with broker:
        ended = get(broker.address, check=1)
    assert ended.out == ["words:0:7"]
    assert ended.err.startswith("kafkalog: Skip getting offsets for topic-partition words-1 due to error: ")


def test_a_broker_that_does_not_know_the_name_of_a_time() -> None:
    broker = ScriptedBroker(
        {MetadataRequest: lambda request: metadata({1: broker}, {("words", 0): 1}), ListOffsetsRequest: answer}
    )
    with broker:
        broker.handlers[ApiVersionsRequest] = lambda request: api_versions(LIST_OFFSETS=6)
        assert get(broker.address).out == ["words:0:7"]
        assert get(broker.address, "--time", "max-timestamp", check=1).out == []
        assert broker.seen[ListOffsetsRequest] == 1


def test_a_topic_that_is_gone_since_it_was_listed_does_not_keep_others_from_being_asked_about() -> None:
    def describe(request: MetadataRequest) -> MetadataResponse:
        found = metadata({1: broker}, {("gone", 0): 1, ("here", 0): 1})
        if request.topics:
            found.topics[0].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return found

    broker = ScriptedBroker({MetadataRequest: describe, ListOffsetsRequest: answer})
    with broker:
        found = get(broker.address, check=1)
    assert found.out == ["here:0:7"]
    assert "topic gone does not exist" in found.err

"""Tests of `kafkalog delete-records`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog.cli.admin.delete_records import parse_offsets
from kafkalog.cli.shared.client_options import UsageError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call, lines, run
from tests.support.scripted import ScriptedBroker, metadata

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def entry(topic: object, partition: object, offset: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "offset": offset}


def test_records_before_an_offset_are_deleted(broker_address: str, topic: str, tmp_path: Path) -> None:
    run("produce", "--bootstrap-server", broker_address, "--topic", topic, stdin=b"1\n2\n3\n4\n")
    file = tmp_path / "offsets.json"

    def delete(*entries: dict[str, object], check: int = 0) -> list[str]:
        file.write_text(json.dumps({"partitions": entries, "version": 1}))
        words = "--bootstrap-server", broker_address, "--offset-json-file", str(file)
        return list(lines(run("delete-records", *words, check=check)))

    begin = ["Executing records delete operation", "Records delete operation completed:"]
    assert delete(entry(topic, 0, 3)) == [*begin, f"partition: {topic}-0\tlow_watermark: 3"]
    read = ["--bootstrap-server", broker_address, "--topic", topic, "--from-beginning", "--max-messages", "1"]
    assert list(lines(run("consume", *read))) == ["4"]
    # A partition that fails keeps none of the others from it.
    assert delete(entry(topic, 0, -1), entry(topic, 7, 1), check=1)[2:] == [
        f"partition: {topic}-0\tlow_watermark: 4",
        f"partition: {topic}-7\terror: topic {topic} has no partition 7",
    ]


@pytest.mark.parametrize("code", [ErrorCode.POLICY_VIOLATION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_partition_that_fails_hides_no_other(code: ErrorCode, tmp_path: Path) -> None:
    """Test that the others are asked for once: a second -1 would delete later records."""
    asked: list[TopicPartition] = []

    def delete(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        (wanted,) = request.topics
        asked.extend(TopicPartition(wanted.name, each.partition_index) for each in wanted.partitions)
        rows = [
            DeleteRecordsPartitionResult(
                partition_index=each.partition_index,
                low_watermark=5,
                error_code=code if each.partition_index == 0 else ErrorCode.NONE,
            )
            for each in wanted.partitions
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name=wanted.name, partitions=rows)])

    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [entry("a", 0, -1), entry("a", 1, -1)]}))
    broker = ScriptedBroker({DeleteRecordsRequest: delete})
    broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {A0: 1, A1: 1}, controller=1)
    with broker:
        words = "--bootstrap-server", broker.address, "--timeout", "1000", "--offset-json-file", str(file)
        failed, done = call("delete-records", *words, check=1).out[2:]
    assert failed.startswith("partition: a-0\terror: ")
    assert done == "partition: a-1\tlow_watermark: 5"
    assert asked.count(A1) == 1


def test_the_file() -> None:
    document = {"partitions": [entry("a", 0, 5), entry("a", 1, -1)]}
    assert parse_offsets(document, "f") == {A0: 5, A1: -1}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "f: Missing partitions field"),
        ({"partitions": [], "version": 2}, "Not supported version field value 2"),
        ({"partitions": [entry("a", 0, 5)] * 2}, "contains duplicate topic partitions: a-0"),
        ({"partitions": [entry("a", "0", 5)]}, "is no partition with an offset"),
        ({"partitions": [entry("a", -1, 5)]}, "is no partition with an offset"),
        ({"partitions": [entry("a", 0, -2)]}, "is no partition with an offset"),
        ({"partitions": [entry("a", 0, 1 << 63)]}, "is no partition with an offset"),
        ({"partitions": {"a": 0}}, "is no partition with an offset"),
    ],
)
def test_what_the_file_cannot_be(document: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_offsets(document, "f")


def test_a_file_that_cannot_be_read(broker_address: str, tmp_path: Path) -> None:
    words = "--bootstrap-server", broker_address, "--offset-json-file", str(tmp_path / "none.json")
    assert "No such file" in call("delete-records", *words, check=2).err
    (tmp_path / "none.json").write_text("[" * 100_000)
    assert "the file is not valid JSON" in call("delete-records", *words, check=2).err

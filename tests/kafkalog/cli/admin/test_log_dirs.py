"""Test `kafkalog log-dirs`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call
from tests.support.console import new_topic, produce
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import ScriptedBroker, metadata

HEAD = "Querying brokers for log directories information"


def answer(request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    partitions = [
        DescribeLogDirsPartition(partition_index=1, partition_size=7, offset_lag=2, is_future_key=True),
        DescribeLogDirsPartition(partition_index=0, partition_size=5),
    ]
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir="/b", topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name in ("words", "a")]
            ),
            DescribeLogDirsResult(log_dir="/a", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        ]
    )


@pytest.mark.parametrize("words", [("describe",), ("--describe",)])
def test_the_json_of_kafkas_tool(words: tuple[str, ...]) -> None:
    broker = ScriptedBroker(
        {MetadataRequest: lambda request: metadata({1: broker}, {}), DescribeLogDirsRequest: answer}
    )
    with broker:
        ended = call("log-dirs", *words, "--bootstrap-server", broker.address, "--topic-list", "words,none")
    assert ended.out[:-1] == [HEAD, "Received log directory information from brokers 1"]
    # The fields and values of LogDirsCommand.formatAsJson.
    assert json.loads(ended.out[-1]) == {
        "version": 1,
        "brokers": [
            {
                "broker": 1,
                "logDirs": [
                    {
                        "logDir": "/a",
                        "error": "org.apache.kafka.common.errors.KafkaStorageException",
                        "partitions": [],
                    },
                    {
                        "logDir": "/b",
                        "error": None,
                        "partitions": [
                            {"partition": "words-0", "size": 5, "offsetLag": 0, "isFuture": False},
                            {"partition": "words-1", "size": 7, "offsetLag": 2, "isFuture": True},
                        ],
                    },
                ],
            }
        ],
    }


def test_of_a_broker(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    address = start_broker({"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}).address
    topic = new_topic(address)
    produce(address, topic, b"hello\n")
    where = ("log-dirs", "describe", "--bootstrap-server", address)
    (broker,) = json.loads(call(*where, "--broker-list", "0").out[-1])["brokers"]
    assert [each["logDir"] for each in broker["logDirs"]] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert all(each["error"] is None for each in broker["logDirs"])
    (replica,) = [
        found for each in broker["logDirs"] for found in each["partitions"] if found["partition"] == f"{topic}-0"
    ]
    assert replica["size"] > 0
    assert (replica["offsetLag"], replica["isFuture"]) == (0, False)


def test_brokers_that_are_not_there(broker_address: str) -> None:
    where = ("log-dirs", "describe", "--bootstrap-server", broker_address, "--broker-list")
    ended = call(*where, "0,7,8", check=1)
    assert ended.out == []
    assert ended.err == (
        "kafkalog: The given brokers do not exist from --broker-list: 7,8. Current existent brokers: 0\n"
    )
    for wrong in ("x", "0,-1", "1_0"):
        assert "expected broker ids" in call(*where, wrong, check=2).err

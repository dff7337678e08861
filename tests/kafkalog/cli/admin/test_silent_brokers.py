"""Tests of commands that ask every broker, in a cluster with one that takes connections and answers only metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkalog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, Silence, metadata


@pytest.fixture
def where(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Run a silent broker, 1, and one that answers, 2; return the options of commands for them."""
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=1500\n")
    moving = OngoingPartitionReassignment(partition_index=0, replicas=[1, 2], adding_replicas=[2], removing_replicas=[])
    reassigned = [OngoingTopicReassignment(name="t", partitions=[moving])]
    transaction = TransactionState(transactional_id="a", producer_id=7, transaction_state="Ongoing")
    silent = ScriptedBroker(dict.fromkeys((DescribeLogDirsRequest, ListTransactionsRequest), lambda _: Silence()))
    answering = ScriptedBroker(
        {
            DescribeLogDirsRequest: lambda _: DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/a")]),
            ListTransactionsRequest: lambda _: ListTransactionsResponse(transaction_states=[transaction]),
            ListPartitionReassignmentsRequest: lambda _: ListPartitionReassignmentsResponse(topics=reassigned),
        }
    )
    with silent, answering:
        for broker in (silent, answering):
            broker.handlers[MetadataRequest] = lambda _: metadata(
                {1: silent, 2: answering}, {("t", 0): 2}, controller=2
            )
        yield "--bootstrap-server", answering.address, "--command-config", str(quick)


def test_transactions_of_the_brokers_that_answer_are_listed(where: tuple[str, ...]) -> None:
    ended = call("transactions", "list", *where, check=1)
    assert [line.split() for line in ended.out[1:]] == [["a", "2", "7", "Ongoing"]]
    assert ended.err.startswith("kafkalog: transactional ids whose coordinator is broker 1 are not listed: ")


def test_log_directories_of_the_brokers_that_answer_are_described(where: tuple[str, ...]) -> None:
    ended = call("log-dirs", "describe", *where, check=1)
    assert ended.out[1] == "Received log directory information from brokers 2"
    (broker,) = json.loads(ended.out[-1])["brokers"]
    assert (broker["broker"], [each["logDir"] for each in broker["logDirs"]]) == (2, ["/a"])
    assert ended.err.startswith("kafkalog: the log directories of broker 1 are not known: ")
    assert call("log-dirs", "describe", *where, "--broker-list", "2").out == ended.out


def test_no_answer_from_the_only_broker_that_is_asked_is_an_error(where: tuple[str, ...]) -> None:
    ended = call("log-dirs", "describe", *where, "--broker-list", "1", check=1)
    assert len(ended.out) == 1
    assert "127.0.0.1" in ended.err


def test_reassignments_are_listed_although_a_broker_does_not_tell_what_it_has(where: tuple[str, ...]) -> None:
    ended = call("reassign", "list", *where)
    assert ended.out[:2] == ["Current partition reassignments:", "t-0: replicas: 1,2. adding: 2."]
    assert ended.out[-1].startswith("1 partitions; how much is left, is not known: ")


def test_topics_are_described_without_a_controller_that_answers(tmp_path: Path) -> None:
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=1500\n")
    configs = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_type=2, resource_name="t")])
    silent = ScriptedBroker({ListPartitionReassignmentsRequest: lambda _: Silence()})
    answering = ScriptedBroker()
    with silent, answering:
        for broker in (silent, answering):
            broker.handlers[DescribeConfigsRequest] = lambda _: configs
            broker.handlers[MetadataRequest] = lambda _: metadata(
                {1: silent, 2: answering}, {("t", 0): 2}, controller=1
            )
        words = ("--bootstrap-server", answering.address, "--command-config", str(quick), "--topic", "t")
        ended = call("topics", "describe", *words, check=1)
    assert [line.split("\t")[:3] for line in ended.out[1:]] == [["", "Topic: t", "Partition: 0"]]
    assert ended.err.endswith("the reassignments in progress are not known\n")

"""Tests of calls that brokers do not answer: each call ends at its own deadline, however long a request may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.admin.replicas.replica_admin import ReplicaOnBroker
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.kafkalog.client.silent import SILENT_S, TP, silent_broker
from tests.support.scripted import ScriptedBroker, Silence, metadata

BROKER = ConfigResource.broker(0)


@pytest.mark.timeout(SILENT_S / 2)
@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.delete_records({TP: -1}),
        lambda admin: admin.describe_configs([BROKER]),
        lambda admin: admin.incremental_alter_configs({BROKER: [ConfigChange("log.retention.ms", "1")]}),
        lambda admin: admin.replicas.describe_log_dirs(),
        lambda admin: admin.replicas.alter_replica_log_dirs({ReplicaOnBroker(TP, 0): "/logs"}),
        lambda admin: admin.replicas.explain(TP),
    ],
    ids=["delete records", "describe configs", "alter configs", "log directories", "move a replica", "explain"],
)
def test_a_call_ends_at_its_deadline(call: Callable[[Admin], Any]) -> None:
    with silent_broker() as config, Admin(config) as admin, pytest.raises(ClientTimeoutError):
        call(admin)


@pytest.mark.timeout(SILENT_S / 2)
def test_a_silent_leader_holds_up_its_own_partitions_only() -> None:
    def delete(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        results = [
            DeleteRecordsPartitionResult(partition_index=each.partition_index, low_watermark=each.offset)
            for topic in request.topics
            for each in topic.partitions
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=results)])

    silent = ScriptedBroker({DeleteRecordsRequest: lambda _: Silence()})
    other = ScriptedBroker({DeleteRecordsRequest: delete})
    second = TopicPartition(TP.topic, 1)
    with silent, other:
        for broker in silent, other:
            broker.handlers[MetadataRequest] = lambda _: metadata({0: silent, 1: other}, {TP: 0, second: 1})
        times = {"default.api.timeout.ms": "1000", "request.timeout.ms": str(round(SILENT_S * 2000))}
        with Admin({"bootstrap.servers": other.address, **times}) as admin:
            found = admin.topics.delete_records_each({TP: 3, second: 5})
    assert isinstance(found[TP], ClientTimeoutError)
    assert found[second] == 5
    assert other.seen[DeleteRecordsRequest] == 1

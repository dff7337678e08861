"""Test that calls keep their time-out while the broker does not respond and another thread waits for it."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.consumer.classic.protocol import Assignment, encode_assignment
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.kafkalog.client.consumer.conftest import GROUPS
from tests.kafkalog.client.consumer.support import DEADLINE_S, Kip848Live, Live, numbers, poll_until, take, values
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import Answer, ScriptedBroker, Silence, metadata
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_silent_broker_keeps_nobody_longer_than_is_said(protocol: str, tmp_path: Path) -> None:
    with KafkalogBroker(tmp_path / "log", GROUPS) as broker, ThreadPoolExecutor(1) as pool:
        own = (Live if protocol == "classic" else Kip848Live)(broker.bootstrap)
        topic, group = own.topic(), own.group()
        own.produce(topic, 0, values(5))
        patient = dict.fromkeys(("request_timeout_ms", "default_api_timeout_ms"), round(3000 * DEADLINE_S))
        if protocol == "classic":
            patient["session_timeout_ms"] = round(3000 * DEADLINE_S)
        consumer = Consumer(own.properties(group, **patient))
        consumer.subscribe([topic])
        take(consumer, 5)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            slots = consumer._cluster._slots.values()
            wait_until(lambda: any(slot.lock.locked() for slot in slots), "a heartbeat is under way")
            commit = pool.submit(consumer.commit, timeout=0.5)
            assert isinstance(commit.exception(DEADLINE_S), ClientTimeoutError)
            pool.submit(consumer.close, 1.0).result(DEADLINE_S)
        finally:
            os.kill(broker.pid, signal.SIGCONT)


class HalfDead:
    """A coordinator that falls silent between its answers to the first JoinGroup and the first SyncGroup."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: metadata({0: self.broker}, {("t", 0): 0}),
                FindCoordinatorRequest: lambda request: FindCoordinatorResponse(
                    node_id=0, host="127.0.0.1", port=self.broker.port
                ),
                JoinGroupRequest: self._join,
                SyncGroupRequest: lambda request: self._answer(
                    SyncGroupResponse(assignment=encode_assignment(Assignment((TopicPartition("t", 0),))))
                ),
                HeartbeatRequest: lambda request: self._answer(HeartbeatResponse()),
                LeaveGroupRequest: lambda request: LeaveGroupResponse(),
                OffsetFetchRequest: self._fetch_offsets,
                FetchRequest: lambda request: Silence(),
            }
        )

    def _join(self, request: JoinGroupRequest) -> Answer:
        protocol = request.protocols[0].name
        return JoinGroupResponse(generation_id=1, protocol_name=protocol, leader="other", member_id="m")

    def _fetch_offsets(self, request: OffsetFetchRequest) -> Answer:
        committed = OffsetFetchResponsePartition(partition_index=0, committed_offset=0)
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[committed])])

    def _answer(self, answer: Any) -> Answer:
        return answer if self.broker.seen[JoinGroupRequest] > 1 else Silence()


@pytest.mark.parametrize("impatient", ["request_timeout_ms", "session_timeout_ms"])
def test_a_coordinator_that_falls_silent_amid_a_join_is_looked_up_again(impatient: str) -> None:
    """The longer wait, for the group's other members, is for the answer to JoinGroup."""
    coordinator = HalfDead()
    long = round(3000 * DEADLINE_S)
    patience = {"request_timeout_ms": long, "session_timeout_ms": long, "max_poll_interval_ms": long, impatient: 500}
    with coordinator.broker as broker, Live(broker.address).consumer("g", enable_auto_commit=False, **patience) as made:
        made.subscribe(["t"])
        poll_until([made], lambda: numbers(made) == [0], "the assignment")
        assert broker.seen[FindCoordinatorRequest] > 1

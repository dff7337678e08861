"""Tests of coordinators: found, cached, and looked up again when they move."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.protocol.errors import ErrorCode, TransactionalIdAuthorizationFailedError, UnknownMemberIdError
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from peers.process import free_port
from tests.kafkalog.client.support import config_for
from tests.support import scripted
from tests.support.scripted import Answer, ScriptedBroker, metadata

DEADLINE_S = 60.0
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Brokers:
    """Two brokers; `coordinator` is the one that FindCoordinator names, and what they answer comes from lists."""

    def __init__(self) -> None:
        self.coordinator = 0
        self.finds: list[int] = []
        self.beats: list[int | None] = []
        self.asked: list[tuple[str, int]] = []
        self.beaten: list[int] = []
        self.brokers = {
            node_id: ScriptedBroker(
                {
                    MetadataRequest: lambda request: metadata(self.brokers, {}),
                    FindCoordinatorRequest: self._find,
                    HeartbeatRequest: lambda request, node_id=node_id: self._beat(node_id),  # type: ignore[misc]
                }
            )
            for node_id in range(2)
        }

    def _find(self, request: Any) -> Answer:
        self.asked.append((request.key, request.key_type))
        code = self.finds.pop(0) if self.finds else 0
        port = self.brokers[self.coordinator].port
        return FindCoordinatorResponse(
            error_code=code,
            error_message=None,
            node_id=-1 if code else self.coordinator,
            host="127.0.0.1",
            port=port,
        )

    def _beat(self, node_id: int) -> Answer:
        self.beaten.append(node_id)
        if node_id != self.coordinator:
            return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        code = self.beats.pop(0) if self.beats else 0
        return None if code is None else HeartbeatResponse(error_code=code)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    for cls in (FindCoordinatorRequest, HeartbeatRequest):
        monkeypatch.setitem(scripted.REQUESTS, cls.api_key, cls)
    made = Brokers()
    with made.brokers[0], made.brokers[1]:
        yield made


@pytest.fixture
def coordinators(brokers: Brokers) -> Iterator[Coordinators]:
    with Cluster(config_for(*brokers.brokers.values())) as cluster:
        yield Coordinators(cluster)


def test_they_are_remembered_by_kind_and_key(brokers: Brokers, coordinators: Coordinators) -> None:
    found = coordinators.find(CoordinatorType.GROUP, "g")
    assert (found.node_id, found.port) == (0, brokers.brokers[0].port)
    brokers.coordinator = 1
    assert coordinators.find(CoordinatorType.GROUP, "g") == found
    assert coordinators.find(CoordinatorType.TRANSACTION, "g").node_id == 1
    coordinators.forget(CoordinatorType.GROUP, "g")
    assert coordinators.find(CoordinatorType.GROUP, "g").node_id == 1
    assert brokers.asked == [("g", 0), ("g", 1), ("g", 0)]


def test_a_coordinator_that_moves_is_followed(brokers: Brokers, coordinators: Coordinators) -> None:
    coordinators.request(CoordinatorType.GROUP, "g", HEARTBEAT)
    brokers.coordinator = 1
    brokers.finds = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    brokers.beats = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None]
    coordinators.request(CoordinatorType.GROUP, "g", HEARTBEAT)
    # Moved; then loading; then the connection is lost; then well.
    assert brokers.beaten == [0, 0, 1, 1, 1]
    assert len(brokers.asked) == 1 + 3 + 1


def test_a_coordinator_is_asked_at_the_address_that_was_found(brokers: Brokers, coordinators: Coordinators) -> None:
    """Another machine has taken the broker's place, and metadata does not say so yet."""
    told = metadata(brokers.brokers, {})
    told.brokers[1].port = free_port()
    for broker in brokers.brokers.values():
        broker.handlers[MetadataRequest] = lambda request: told
    coordinators.find(CoordinatorType.GROUP, "other")
    assert coordinators._cluster.metadata([]).brokers[1].port == told.brokers[1].port
    brokers.coordinator = 1
    coordinators.request(CoordinatorType.GROUP, "g", HEARTBEAT, deadline=time.monotonic() + DEADLINE_S)
    assert brokers.beaten == [1]


def test_what_is_refused_is_raised_at_once(brokers: Brokers, coordinators: Coordinators) -> None:
    brokers.finds = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    with pytest.raises(TransactionalIdAuthorizationFailedError, match="transactional id t"):
        coordinators.find(CoordinatorType.TRANSACTION, "t")
    brokers.beats = [ErrorCode.UNKNOWN_MEMBER_ID]
    with pytest.raises(UnknownMemberIdError):
        coordinators.request(CoordinatorType.GROUP, "g", HEARTBEAT)
    assert brokers.beaten == [0]


def test_the_deadline_ends_it(brokers: Brokers, coordinators: Coordinators) -> None:
    brokers.beats = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100_000
    with pytest.raises(ClientTimeoutError):
        coordinators.request(CoordinatorType.GROUP, "g", HEARTBEAT, deadline=time.monotonic() + 1.0)

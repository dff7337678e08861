"""Tests of a group's committed offsets with a coordinator that moves, is missing, or refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.client.admin.groups.descriptions import CommittedOffset
from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, GroupAuthorizationFailedError, UnknownMemberIdError
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tests.kafkalog.client.support import config_for
from tests.support import scripted
from tests.support.scripted import ScriptedBroker, metadata

TP = TopicPartition("t", 3)


class Coordinator:
    """A broker with a coordinator; what it answers is taken from lists, and their end is success."""

    def __init__(self) -> None:
        self.finds: list[int] = []
        self.commits: list[int] = []
        self.stored: dict[TopicPartition, tuple[int, str | None]] = {}
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: metadata({0: self.broker}, {}),
                FindCoordinatorRequest: self._find,
                OffsetCommitRequest: self._commit,
                OffsetFetchRequest: self._fetch,
            }
        )

    def _find(self, request: Any) -> FindCoordinatorResponse:
        assert request.key == "g"
        code = self.finds.pop(0) if self.finds else 0
        return FindCoordinatorResponse(
            error_code=code,
            error_message=None,
            node_id=0 if code == 0 else -1,
            host="127.0.0.1",
            port=self.broker.port,
        )

    def _commit(self, request: Any) -> OffsetCommitResponse:
        assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
        code = self.commits.pop(0) if self.commits else 0
        topics = []
        for topic in request.topics:
            for each in topic.partitions:
                if not code:
                    tp = TopicPartition(topic.name, each.partition_index)
                    self.stored[tp] = each.committed_offset, each.committed_metadata
            parts = [
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=parts))
        return OffsetCommitResponse(topics=topics)

    def _fetch(self, request: Any) -> OffsetFetchResponse:
        wanted = (
            list(self.stored)
            if request.topics is None
            else [TopicPartition(topic.name, p) for topic in request.topics for p in topic.partition_indexes]
        )
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=tp.topic,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=tp.partition,
                            committed_offset=self.stored.get(tp, (-1, None))[0],
                            metadata="",
                            error_code=0,
                        )
                    ],
                )
                for tp in wanted
            ]
        )


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    for cls in (FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest):
        monkeypatch.setitem(scripted.REQUESTS, cls.api_key, cls)
    made = Coordinator()
    with made.broker:
        yield made


@pytest.fixture
def group(coordinator: Coordinator) -> Iterator[GroupOffsets]:
    with Cluster(config_for(coordinator.broker, retry_backoff_ms="1")) as cluster:
        yield GroupOffsets(cluster, "g")


def test_commit_and_read(coordinator: Coordinator, group: GroupOffsets) -> None:
    group.commit({TP: 42, TopicPartition("u", 0): 7}, metadata="note")
    assert coordinator.stored == {TP: (42, "note"), TopicPartition("u", 0): (7, "note")}
    assert group.committed() == {TP: 42, TopicPartition("u", 0): 7}
    assert group.committed([TP, TopicPartition("t", 9)]) == {TP: 42}
    group.commit({})
    assert coordinator.broker.seen[FindCoordinatorRequest] == 1, "the coordinator is remembered"
    assert coordinator.broker.seen[OffsetCommitRequest] == 1


def test_a_position_brings_its_own_note(coordinator: Coordinator, group: GroupOffsets) -> None:
    group.commit({TP: CommittedOffset(42, metadata="own"), TopicPartition("u", 0): 7}, metadata="note")
    assert coordinator.stored == {TP: (42, "own"), TopicPartition("u", 0): (7, "note")}


def test_a_coordinator_that_is_not_ready_or_has_moved(coordinator: Coordinator, group: GroupOffsets) -> None:
    coordinator.finds = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    coordinator.commits = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    group.commit({TP: 1})
    assert coordinator.stored == {TP: (1, "")}
    assert coordinator.broker.seen[FindCoordinatorRequest] == 4
    assert coordinator.broker.seen[OffsetCommitRequest] == 3


def test_a_coordinator_that_never_comes(coordinator: Coordinator, group: GroupOffsets) -> None:
    coordinator.finds = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 10_000
    with pytest.raises(
        ClientTimeoutError, match=r"gave up after \d+ tries: (.+; before that: )?COORDINATOR_NOT_AVAILABLE: group g"
    ):
        group.commit({TP: 1}, deadline=time.monotonic() + 1.0)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, UnknownMemberIdError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError),
    ],
)
def test_what_is_refused(
    coordinator: Coordinator, group: GroupOffsets, code: ErrorCode, error: type[Exception]
) -> None:
    coordinator.commits = [code]
    with pytest.raises(error, match="group g, committing t-3"):
        group.commit({TP: 1})

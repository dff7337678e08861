"""Test that clients that ask for the metadata of many partitions at once share an answer, and only one of theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.api import metadata
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.replica.in_process import InProcess, Wire, with_broker

PARTITIONS = 30


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let answers of few partitions be large; return the versions of the answers that were made."""
    found: list[int] = []
    usual = metadata._response

    async def told(request: Any, *args: Any) -> Any:
        found.append(request.version)
        return await usual(request, *args)

    monkeypatch.setattr(metadata, "MANY", PARTITIONS - 1)
    monkeypatch.setattr(metadata, "_response", told)
    return found


def of(*names: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


async def create(broker: InProcess, *names: str) -> Wire:
    wire = await broker.connect()
    topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in names]
    answer = await wire.exchange(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    assert [topic.error_code for topic in answer.topics] == [0] * len(names)
    return wire


async def at_once(broker: InProcess, *asked: tuple[MetadataRequest, int]) -> list[Any]:
    """Ask each from a client of its own, all at the same time."""
    wires = [await broker.connect() for _ in asked]
    return list(await asyncio.gather(*(wire.exchange(*each) for wire, each in zip(wires, asked, strict=True))))


@pytest.mark.parametrize("version", range(13))
def test_clients_share_an_answer_of_every_version(tmp_path: Path, made: list[int], version: int) -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "t")
        first, *others = await at_once(broker, *[(of("t"), version)] * 5)
        assert [row.partition_index for row in first.topics[0].partitions] == list(range(PARTITIONS))
        assert all(each == first for each in others)
        assert made == [version]

    with_broker(tmp_path, work)


def test_what_differs_is_not_shared(tmp_path: Path, made: list[int]) -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "t", "u")
        asked = [
            of("t"), of("u"), of("t", "u"), MetadataRequest(topics=None),
            of("t", include_topic_authorized_operations=True),
            of("t", include_cluster_authorized_operations=True),
        ]  # fmt: skip
        answers = await at_once(broker, *((each, 9) for each in asked * 2), (of("t"), 8))
        named = [[topic.name for topic in answer.topics] for answer in answers]
        assert named == [["t"], ["u"], ["t", "u"], ["t", "u"], ["t"], ["t"]] * 2 + [["t"]]
        operations = [answer.topics[0].topic_authorized_operations > 0 for answer in answers]
        assert operations == [False, False, False, False, True, False] * 2 + [False]
        assert sorted(made) == [8] + [9] * len(asked)

    with_broker(tmp_path, work)


def test_a_change_is_told_at_once(tmp_path: Path, made: list[int]) -> None:
    async def work(broker: InProcess) -> None:
        wire = await create(broker, "t")
        assert len((await wire.exchange(of("t"), 9)).topics[0].partitions) == PARTITIONS
        more = CreatePartitionsTopic(name="t", count=PARTITIONS + 1, assignments=None)
        answer = await wire.exchange(CreatePartitionsRequest(topics=[more], timeout_ms=10_000), 3)
        assert answer.results[0].error_code == 0
        assert len((await wire.exchange(of("t"), 9)).topics[0].partitions) == PARTITIONS + 1
        assert len(made) == 2

    with_broker(tmp_path, work)


def test_an_error_is_not_shared(tmp_path: Path, made: list[int]) -> None:
    """It may be over in a moment, and the client asks again."""

    async def work(broker: InProcess) -> None:
        wire = await create(broker, "t")
        for _ in range(2):
            answer = await wire.exchange(of("t", "none", allow_auto_topic_creation=False), 9)
            assert [topic.error_code for topic in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert len(made) == 2

    with_broker(tmp_path, work)


def test_an_answer_is_freed_after_a_moment(tmp_path: Path, made: list[int]) -> None:
    async def work(broker: InProcess) -> None:
        wire = await create(broker, "t")
        await wire.exchange(of("t"), 9)
        assert broker.server.broker is not None
        bodies = broker.server.broker.shared_metadata._bodies
        assert len(bodies) == 1
        await broker.until(lambda: not bodies, "the answer is freed")
        await wire.exchange(of("t"), 9)
        assert len(made) == 2

    with_broker(tmp_path, work)


def test_clients_of_an_authorizer_share_nothing(tmp_path: Path, made: list[int]) -> None:
    """They may know of different topics."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }

    async def work(broker: InProcess) -> None:
        await create(broker, "t")
        await at_once(broker, (of("t"), 9), (of("t"), 9))
        assert len(made) == 2

    with_broker(tmp_path, work, settings)


def test_a_client_that_is_held_back_is_told_so(tmp_path: Path, made: list[int]) -> None:
    async def work(broker: InProcess) -> None:
        wire = await create(broker, "t")
        assert (await wire.exchange(of("t"), 9)).throttle_time_ms == 0
        least = AlterClientQuotasOp(key="request_percentage", value=0.0001)
        anybody = AlterClientQuotasEntry(
            entity=[AlterClientQuotasEntity(entity_type="client-id", entity_name=None)], ops=[least]
        )
        changed = await wire.exchange(AlterClientQuotasRequest(entries=[anybody]), 1)
        assert changed.entries[0].error_code == 0
        answer = await wire.exchange(of("t"), 9)
        assert answer.throttle_time_ms > 0
        assert len(answer.topics[0].partitions) == PARTITIONS

    with_broker(tmp_path, work)

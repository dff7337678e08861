"""Test that other requests are served between the parts of large requests of administrators and coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.api import large, metadata
from broker.api.transactions import transactions
from broker.coordinator.transaction import markers
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.coordinator.support import Stored
from tests.broker.serving import HERE, Serving

NONE = 5
"""Partitions that there are not."""


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """Every request ends its turn wherever it may."""
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, {**metadata.HANDLERS, **transactions.HANDLERS})


def test_others_have_their_turn_between_the_partitions_of_a_topic(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "AT_ONCE", HERE - 1)

    async def work() -> None:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        found = (await serving.ask(asked, 9)).topics[0]
        assert serving.turns >= HERE
        assert [row.partition_index for row in found.partitions] == list(range(HERE))
        monkeypatch.setattr(metadata, "AT_ONCE", HERE)
        assert (await serving.ask(asked, 9)).topics[0] == found

    serving.run(work())


def test_others_have_their_turn_between_markers(serving: Serving) -> None:
    """Each may have to be forced to the disk."""
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(range(HERE + NONE)))],
    )

    async def work() -> None:
        ends = []
        append = serving.parts.replicas.append

        def note(*args: object, **options: object) -> object:
            ends.append(serving.turns)
            return append(*args, **options)  # type: ignore[arg-type]

        serving.parts.replicas.append = note  # type: ignore[method-assign, assignment]
        response = await serving.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        assert len(set(ends)) == len(ends) == HERE, "two markers were written in one turn"
        rows = response.markers[0].topics[0].partitions
        assert [row.partition_index for row in rows] == list(range(HERE + NONE))
        codes = [row.error_code for row in rows]
        assert codes == [ErrorCode.NONE] * HERE + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * NONE

    serving.run(work())


def test_no_marker_waits_for_the_replicas_of_another(serving: Serving) -> None:
    held = serving.parts.replicas.get("t", 0)
    assert held is not None
    held.log.config = serving.parts.config.log_config({"flush.messages": 1})
    flushes = serving.parts.replicas.flushes
    begin, flushes.begin = flushes.begin, lambda partition: None  # type: ignore[method-assign]
    wanted = [
        WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        )
        for producer_id, topics in ((1, {"t": [0], "none": [0]}), (2, {"t": [1]}))
    ]

    async def work() -> None:
        answering = serving.begin(WriteTxnMarkersRequest(markers=wanted), 1)
        other = serving.parts.replicas.get("t", 1)
        assert other is not None
        await serving.until(lambda: other.log.log_end_offset == 1)
        assert held.log.log_end_offset == 1
        assert not answering.done()
        flushes.begin = begin  # type: ignore[method-assign]
        begin(held)
        told = [
            (marker.producer_id, topic.name, row.partition_index, row.error_code)
            for marker in (await answering).markers
            for topic in marker.topics
            for row in topic.partitions
        ]
        assert told == [
            (1, "t", 0, ErrorCode.NONE),
            (1, "none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (2, "t", 1, ErrorCode.NONE),
        ]

    serving.run(work())


def test_a_marker_that_is_not_replicated_in_time_tells_so(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "DEFAULT_TIMEOUT_MS", 1)
    monkeypatch.setattr(transactions, "MOST_WAITING", 2)
    for index in range(3):
        partition = serving.parts.replicas.get("t", index)
        assert partition is not None
        partition.log.config = serving.parts.config.log_config({"flush.messages": 1})
    serving.parts.replicas.flushes.begin = lambda partition: None  # type: ignore[method-assign]
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1, 2, 3])],
    )
    response = serving.run(serving.ask(WriteTxnMarkersRequest(markers=[marker]), 1))
    codes = [row.error_code for row in response.markers[0].topics[0].partitions]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 3 + [ErrorCode.NONE]


def test_topics_are_described_in_order_though_they_are_sorted_in_turns(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "SORTED_AT_ONCE", 10)
    names = [f"n{number * 7 % 60:02}" for number in range(60)]

    async def work() -> None:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
        described = await serving.ask(request, 0)
        assert [topic.name for topic in described.topics] == sorted(names)
        # They are taken from the request, sorted, and described.
        assert serving.turns >= 60 + 6 + 60
        request.cursor = Cursor(topic_name="n20", partition_index=0)
        described = await serving.ask(request, 0)
        assert [topic.name for topic in described.topics] == sorted(names)[20:]
        everything = await serving.ask(DescribeTopicPartitionsRequest(), 0)
        assert [topic.name for topic in everything.topics] == ["t"]

    serving.run(work())

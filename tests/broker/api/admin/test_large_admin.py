"""Test that other requests are served between the parts of large requests of administrators and coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.api import large, metadata
from broker.api.transactions import transactions
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
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

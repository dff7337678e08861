"""Test that a load writes nothing outside of its directory, whatever brokers call their topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, metadata


def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer that every partition is empty."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=0)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


@pytest.mark.parametrize("name", ["../outside", "../../loads/in/../outside", "..", ".", "a/b", "a\nb", "", "a" * 250])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_matches_that_are_no_names_are_refused(tmp_path: Path, name: str, more: list[str]) -> None:
    with ScriptedBroker({ListOffsetsRequest: offsets}) as broker:

        def describe(request: MetadataRequest) -> MetadataResponse:
            named = [each.name for each in request.topics or () if each.name is not None]
            return metadata({1: broker}, {(each, 0): 1 for each in (named or ["a-good-one", name])})

        broker.handlers[MetadataRequest] = describe
        target = tmp_path / "loads" / "in"
        given = ["--bootstrap-server", broker.address, "--topic-pattern", ".*", "--to", str(target)]
        # `latest` publishes a load without rows.
        done = call("load", *given, "--from", "latest", "--without-spark", *more, check=1)
    assert f"the brokers name a topic {name!r}" in done.err
    assert list(tmp_path.iterdir()) == []

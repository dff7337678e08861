"""Test that `kafkalog configs describe` shows the topics whose configurations can be read."""

from __future__ import annotations

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, metadata


def describe(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each.resource_name == "gone" else ErrorCode.NONE,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[DescribeConfigsResourceResult(name="segment.bytes", value="5", config_source=1)],
            )
            for each in request.resources
        ]
    )


def test_a_topic_that_fails_hides_no_other() -> None:
    """It may have been deleted since the topics were listed."""
    broker = ScriptedBroker(
        {
            MetadataRequest: lambda request: metadata({1: broker}, dict.fromkeys((("a", 0), ("gone", 0), ("z", 0)), 1)),
            DescribeConfigsRequest: describe,
        }
    )
    with broker:
        ended = call("configs", "describe", "--bootstrap-server", broker.address, "--entity-type", "topics", check=1)
    assert [line for line in ended.out if line.startswith("Dynamic")] == [
        "Dynamic configs for topic a are:",
        "Dynamic configs for topic z are:",
    ]
    assert len(ended.out) == 4
    assert ended.err.splitlines() == [
        "kafkalog: topic gone does not exist; `kafkalog topics describe` lists the topics and their partitions"
    ]

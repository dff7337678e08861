"""Test that errors about some configurations hide nothing of the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import RESOURCES_AT_ONCE, ConfigChange, ConfigResource
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.protocol.errors import ErrorCode, InvalidConfigError, UnknownServerError, UnknownTopicOrPartitionError
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.scripted import Answer, ScriptedBroker, Silence, metadata

GONE, HIDDEN, SILENT = "gone", "hidden", "silent"
"""Topics that do not exist, that answers leave out, and that get no answer."""


def describe(request: DescribeConfigsRequest) -> Answer:
    names = [each.resource_name for each in request.resources]
    if SILENT in names:
        return Silence()
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name == GONE else ErrorCode.NONE,
                resource_type=2,
                resource_name=name,
                configs=[DescribeConfigsResourceResult(name="segment.bytes", value="5", config_source=1)],
            )
            for name in names
            if name != HIDDEN
        ]
    )


def alter(request: IncrementalAlterConfigsRequest) -> Answer:
    (resource,) = request.resources
    if resource.resource_name == SILENT:
        return Silence()
    result = AlterConfigsResourceResponse(
        error_code=ErrorCode.INVALID_CONFIG,
        error_message=f"not for {resource.resource_name}",
        resource_type=2,
        resource_name=resource.resource_name,
    )
    return IncrementalAlterConfigsResponse(responses=[result])


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    opened = ScriptedBroker(
        {
            MetadataRequest: lambda request: metadata({1: opened}, {}),
            DescribeConfigsRequest: describe,
            IncrementalAlterConfigsRequest: alter,
        }
    )
    with opened:
        yield opened


@pytest.fixture
def admin(broker: ScriptedBroker) -> Iterator[Admin]:
    config = {"bootstrap.servers": broker.address, "default.api.timeout.ms": "500", "request.timeout.ms": "300"}
    with Admin(config) as opened:
        yield opened


def test_configurations_and_errors_of_each_resource(admin: Admin) -> None:
    many = [f"t{number}" for number in range(RESOURCES_AT_ONCE)]
    wanted = [ConfigResource.topic(name) for name in ("a", GONE, HIDDEN, *many, SILENT)]
    found = admin.describe_configs_each(wanted)
    assert list(found) == wanted
    errors = {resource.name: each for resource, each in found.items() if isinstance(each, Exception)}
    # Those that are asked for together with the silent one.
    assert list(errors) == [GONE, HIDDEN, *many[-3:], SILENT]
    assert isinstance(errors[GONE], UnknownTopicOrPartitionError)
    assert isinstance(errors[HIDDEN], UnknownServerError)
    assert isinstance(errors[SILENT], ClientTimeoutError)
    entries = found[ConfigResource.topic("a")]
    assert not isinstance(entries, Exception)
    assert entries["segment.bytes"].value == "5"


def test_the_first_error_is_raised_and_nothing_more_is_asked_for(broker: ScriptedBroker, admin: Admin) -> None:
    many = [f"t{number}" for number in range(RESOURCES_AT_ONCE)]
    with pytest.raises(UnknownTopicOrPartitionError, match=GONE):
        admin.describe_configs(ConfigResource.topic(name) for name in (GONE, *many))
    assert broker.seen[DescribeConfigsRequest] == 1


def test_errors_before_a_time_out_are_logged(admin: Admin, caplog: pytest.LogCaptureFixture) -> None:
    change = [ConfigChange("segment.bytes", "5")]
    with pytest.raises(ClientTimeoutError):
        admin.incremental_alter_configs({ConfigResource.topic(name): change for name in ("a", "b", SILENT)})
    assert [text for text in caplog.messages if "not for" in text] == ["topic a: not for a", "topic b: not for b"]


def test_further_errors_are_logged(admin: Admin, caplog: pytest.LogCaptureFixture) -> None:
    change = [ConfigChange("segment.bytes", "5")]
    with pytest.raises(InvalidConfigError, match="topic a: not for a"):
        admin.incremental_alter_configs({ConfigResource.topic(name): change for name in ("a", "b")})
    assert [text for text in caplog.messages if "not for" in text] == ["topic b: not for b"]

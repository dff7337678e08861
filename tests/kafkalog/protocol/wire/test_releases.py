"""Test that errors about versions name the release of Apache Kafka that has what is needed."""

from __future__ import annotations

import pytest

from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.api_versions import ApiVersion
from kafkalog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkalog.protocol.messages.list_groups import ListGroupsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.versions import Versions

ANNOUNCED = [ApiVersion(api_key=ListGroupsRequest.api_key, min_version=0, max_version=1)]


@pytest.mark.parametrize(
    ("request_class", "least", "said"),
    [
        (
            IncrementalAlterConfigsRequest,
            0,
            "b:1 does not support INCREMENTAL_ALTER_CONFIGS; brokers of Apache Kafka have it since 2.3",
        ),
        (
            ListGroupsRequest,
            4,
            (
                "b:1 supports LIST_GROUPS up to version 1, and version 4 is needed; "
                "brokers of Apache Kafka have it since 2.6"
            ),
        ),
        (MetadataRequest, 0, "b:1 does not support METADATA"),
    ],
)
def test_the_release_is_named(request_class: type[Request], least: int, said: str) -> None:
    with pytest.raises(UnsupportedVersionError) as failure:
        Versions("b:1", ANNOUNCED).version_of(request_class, min_version=least)
    assert failure.value.message == said

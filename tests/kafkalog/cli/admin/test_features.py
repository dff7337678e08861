"""Test `kafkalog features`; `test_tools_beside_kafka` compares it with Kafka's tool."""

from __future__ import annotations

import json

import pytest

from kafkalog.cli.admin.features import level_text
from kafkalog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, api_versions


def answer(request: ApiVersionsRequest) -> ApiVersionsResponse:
    response = api_versions(ApiVersionsRequest)
    response.supported_features = [
        SupportedFeatureKey(name="metadata.version", min_version=1, max_version=21),
        SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
    ]
    response.finalized_features = [FinalizedFeatureKey(name="metadata.version", max_version_level=20)]
    response.finalized_features_epoch = 7
    return response


def test_the_lines_of_kafkas_tool() -> None:
    with ScriptedBroker({ApiVersionsRequest: answer}) as broker:
        where = ("features", "describe", "--bootstrap-server", broker.address)
        assert [line.split("\t") for line in call(*where).out] == [
            ["Feature: group.version", "SupportedMinVersion: 0", "SupportedMaxVersion: 1",
             "FinalizedVersionLevel: 0", "Epoch: 7"],
            ["Feature: metadata.version", "SupportedMinVersion: 3.0-IV1", "SupportedMaxVersion: 3.9-IV0",
             "FinalizedVersionLevel: 3.8-IV0", "Epoch: 7"],
        ]  # fmt: skip
        assert json.loads(call(*where, "--json").out[0]) == {
            "feature": "group.version", "min_level": 0, "max_level": 1, "finalized": 0, "epoch": 7,
        }  # fmt: skip


def test_of_this_broker(broker_address: str) -> None:
    (line,) = call("features", "describe", "--bootstrap-server", broker_address).out
    assert line.startswith("Feature: kafkalog.stated.offsets\tSupportedMinVersion: 1\t")
    assert line.endswith("FinalizedVersionLevel: 0\tEpoch: -")


@pytest.mark.parametrize(("level", "text"), [(1, "3.0-IV1"), (21, "3.9-IV0"), (0, "UNKNOWN 0"), (999, "UNKNOWN 999")])
def test_versions_of_metadata(level: int, text: str) -> None:
    assert level_text("metadata.version", level) == text

"""Test `kafkalog features`; `test_tools_beside_kafka` compares it with Kafka's tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.cli.admin.features import METADATA_VERSIONS, level_of, level_text
from kafkalog.cli.shared.client_options import UsageError
from kafkalog.protocol.errors import ClusterAuthorizationFailedError
from kafkalog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from peers import require
from peers.brokers import kafka
from peers.toolchains import java
from tests.support.command import call
from tests.support.scripted import ScriptedBroker, api_versions, metadata


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


@pytest.mark.parametrize(("version", "level"), [("3.9-IV0", 21), ("3.7", 19), ("3.9.1", 21), ("3.3-IV2", 6)])
def test_levels_of_versions(version: str, level: int) -> None:
    assert level_of(version) == level


@pytest.mark.parametrize("version", ["", "3", "2.8", "9.9-IV0", "3.9-IV7", "IV0"])
def test_versions_that_are_not_there(version: str) -> None:
    with pytest.raises(UsageError, match=f"--metadata {version}: expected one of 3.0-IV1, "):
        level_of(version)


@pytest.mark.peer
@pytest.mark.parametrize("version", kafka.VERSIONS)
@pytest.mark.usefixtures("foreign_programs")
def test_versions_of_metadata_are_those_of_kafka(version: str) -> None:
    require(kafka.missing(version))
    printed = java.run_java(kafka.kafka_classpath(version), str(Path(__file__).with_name("MetadataVersions.java")))
    theirs = {int(level): name for level, name in (line.split() for line in printed.splitlines())}
    ours = dict(enumerate(METADATA_VERSIONS, 1))
    assert len(theirs) > 20
    assert {level: ours.get(level) for level in theirs if level > 0} == {
        level: name for level, name in theirs.items() if level > 0
    }


# Changes


@pytest.fixture
def controller() -> Iterator[ScriptedBroker]:
    server = ScriptedBroker({MetadataRequest: lambda request: metadata({1: server}, {})})
    server.handlers[ApiVersionsRequest] = lambda request: api_versions(UpdateFeaturesRequest)
    with server:
        yield server


def result(request: UpdateFeaturesRequest, **refused: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        results=[
            UpdatableFeatureResult(
                feature=each.feature,
                error_code=95 if each.feature in refused else 0,
                error_message=refused.get(each.feature),
            )
            for each in request.feature_updates
        ]
    )


@pytest.mark.parametrize(
    ("words", "sent", "lines"),
    [
        (
            ("upgrade", "--metadata", "3.8", "--feature", "group.version=1"),
            ([("metadata.version", 20, 1), ("group.version", 1, 1)], False),
            ["group.version was upgraded to 1.", "metadata.version was upgraded to 20."],
        ),
        (
            ("downgrade", "--feature", "metadata.version = 7", "--dry-run"),
            ([("metadata.version", 7, 2)], True),
            ["metadata.version can be downgraded to 7."],
        ),
        (
            ("disable", "--feature", "group.version", "--unsafe"),
            ([("group.version", 0, 3)], False),
            ["group.version was disabled."],
        ),
    ],
)
def test_changes(
    controller: ScriptedBroker, words: tuple[str, ...], sent: tuple[object, bool], lines: list[str]
) -> None:
    seen: list[UpdateFeaturesRequest] = []

    def take(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        seen.append(request)
        return result(request)

    controller.handlers[UpdateFeaturesRequest] = take
    assert call("features", words[0], "--bootstrap-server", controller.address, *words[1:]).out == lines
    (request,) = seen
    updates = [(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    assert (updates, request.validate_only) == sent


def test_changes_that_the_broker_refuses(controller: ScriptedBroker) -> None:
    controller.handlers[UpdateFeaturesRequest] = lambda request: result(request, a="Too new.")
    where = ("--bootstrap-server", controller.address)
    ended = call("features", "upgrade", *where, "--feature", "a=2", "--feature", "b=1", check=1)
    assert ended.out == ["Could not upgrade a to 2. Too new.", "b was upgraded to 1."]
    assert ended.err == "kafkalog: 1 out of 2 operation(s) failed.\n"
    controller.handlers[UpdateFeaturesRequest] = lambda request: UpdateFeaturesResponse(error_code=31)
    ended = call("features", "disable", *where, "--feature", "a", "--dry-run", check=1)
    assert ended.out == [f"Can not disable a. {ClusterAuthorizationFailedError().message}"]


def test_an_answer_about_other_features(controller: ScriptedBroker) -> None:
    controller.handlers[UpdateFeaturesRequest] = lambda request: UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=name, error_code=0, error_message=None) for name in ("a", "z")]
    )
    where = ("--bootstrap-server", controller.address)
    ended = call("features", "upgrade", *where, "--feature", "a=2", "--feature", "b=1", check=1)
    assert ended.out == [
        "a was upgraded to 2.",
        "Could not upgrade b to 1. the broker's answer leaves out feature b",
    ]


def test_changes_at_a_controller_that_has_moved(controller: ScriptedBroker) -> None:
    moved = False

    def refuse_once(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        nonlocal moved
        if moved:
            return result(request)
        moved = True
        return UpdateFeaturesResponse(error_code=41)

    controller.handlers[UpdateFeaturesRequest] = refuse_once
    where = ("--bootstrap-server", controller.address)
    assert call("features", "upgrade", *where, "--feature", "a=1").out == ["a was upgraded to 1."]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("upgrade",), "name at least one feature with --feature"),
        (("upgrade", "--feature", "a"), "--feature a: expected FEATURE=LEVEL"),
        (("upgrade", "--feature", "a=1_0"), "--feature a=1_0: expected FEATURE=LEVEL"),
        (("downgrade", "--feature", "a=99999"), "a number up to 32767"),
        (("downgrade", "--feature", "a=1", "--feature", "a=2"), "--feature: a was specified more than once"),
        (("disable", "--feature", "a", "--feature", "a"), "--feature: a was specified more than once"),
    ],
)
def test_options_that_are_refused(words: tuple[str, ...], told: str) -> None:
    assert told in call("features", words[0], "--bootstrap-server", "localhost:1", *words[1:], check=2).err


def test_brokers_whose_features_do_not_change(controller: ScriptedBroker, broker_address: str) -> None:
    ended = call("features", "upgrade", "--bootstrap-server", broker_address, "--feature", "a=1", check=1)
    assert "UPDATE_FEATURES" in ended.err
    controller.handlers[ApiVersionsRequest] = lambda request: api_versions(UpdateFeaturesRequest, UPDATE_FEATURES=0)
    controller.handlers[UpdateFeaturesRequest] = result
    where = ("--bootstrap-server", controller.address, "--feature", "a=1")
    assert call("features", "upgrade", *where).out == ["a was upgraded to 1."]
    ended = call("features", "downgrade", *where, check=1)
    assert "brokers before Kafka 3.3 only upgrade features" in ended.err

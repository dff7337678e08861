"""Test that what a store refuses, such as a node that would be too large, is told of each resource."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.admin import client_quotas, configs
from broker.metadata.model import ClusterState
from broker.metadata.store import Decision
from kafkalog.protocol.errors import ErrorCode, PolicyViolationError
from kafkalog.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.coordinator.support import Stored
from tests.broker.serving import Serving
from tests.support.requests.admin_messages import quota

TOPIC, GROUP = 2, 32
TOO_LARGE = (ErrorCode.POLICY_VIOLATION, "too large")


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """The store takes no operation that has a word in it."""
    with Stored(tmp_path, {}) as parts:
        serving = Serving(parts, {**configs.HANDLERS, **client_quotas.HANDLERS})
        commit = parts.store.commit

        async def refuse(decide: Decision) -> ClusterState:
            def checked(state: ClusterState) -> Any:
                operations = decide(state)
                if any("large" in repr(each) for each in operations):
                    raise PolicyViolationError("too large")
                return operations

            return await commit(checked)

        monkeypatch.setattr(parts.store, "commit", refuse)
        yield serving


def altered(serving: Serving, *wanted: tuple[int, str, str, str]) -> list[tuple[int, str | None]]:
    resources = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in wanted
    ]
    response = serving.run(serving.ask(IncrementalAlterConfigsRequest(resources=resources), 1))
    return [(each.error_code, each.error_message) for each in response.responses]


def test_a_configuration_that_is_too_large_is_refused_alone(serving: Serving) -> None:
    large = TOPIC, "t", "kafkalog.mirror.source", "large"
    assert altered(serving, large) == [TOO_LARGE]
    small = GROUP, "g", "consumer.session.timeout.ms", "50000"
    unknown = TOPIC, "none", "retention.ms", "1"
    assert [code for code, _ in altered(serving, large, small, unknown)] == [
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    state = serving.parts.store.state
    assert state.group_config["g"] == {"consumer.session.timeout.ms": "50000"}
    assert state.topics["t"].config == {}


def test_quotas_that_are_refused(serving: Serving) -> None:
    entries = [quota("large"), quota("small")]
    response = serving.run(serving.ask(AlterClientQuotasRequest(entries=entries), 1))
    assert [(each.error_code, each.error_message) for each in response.entries] == [TOO_LARGE, TOO_LARGE]

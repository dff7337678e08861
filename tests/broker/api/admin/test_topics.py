"""Test what is told of new topics, and which are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.api.admin import topics
from broker.controller.topics import TopicController
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.coordinator.support import Stored
from tests.broker.serving import TOPIC_ID, Serving

TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, topics.HANDLERS)


def creation(name: str, *, validate_only: bool = False) -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name="retention.ms", value="7")]
    wanted = CreatableTopic(name=name, num_partitions=3, replication_factor=1, configs=configs)
    return CreateTopicsRequest(topics=[wanted], validate_only=validate_only)


def check(result: Any) -> None:
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 3, 1)
    told = {each.name: (each.value, each.config_source) for each in result.configs}
    assert told["retention.ms"] == ("7", TOPIC_CONFIG)
    assert told["cleanup.policy"] == ("delete", DEFAULT_CONFIG)


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_configuration_is_told_also_if_nothing_is_made(serving: Serving, validate_only: bool) -> None:
    response = serving.run(serving.ask(creation("words", validate_only=validate_only), 7))
    (result,) = response.topics
    check(result)
    assert (result.topic_id.int == 0) is validate_only
    assert (serving.broker.topics.state("words") is None) is validate_only


def test_a_topic_that_is_deleted_at_once_was_created(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    create = TopicController.create

    async def create_and_delete(controller: TopicController, *arguments: Any, **options: Any) -> Any:
        made = await create(controller, *arguments, **options)
        await controller.delete(list(made))
        return made

    monkeypatch.setattr(TopicController, "create", create_and_delete)
    (result,) = serving.run(serving.ask(creation("words"), 7)).topics
    check(result)
    assert result.topic_id.int != 0


@pytest.mark.parametrize("topic_id", [TOPIC_ID, UUID(int=99)])
def test_a_topic_is_named_by_its_name_or_its_id(serving: Serving, topic_id: UUID) -> None:
    """The id may be that of a former topic of the name."""
    named = [DeleteTopicState(name="t", topic_id=topic_id)]
    (result,) = serving.run(serving.ask(DeleteTopicsRequest(topics=named), 6)).responses
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, ErrorCode.INVALID_REQUEST)
    assert serving.broker.topics.state("t") is not None

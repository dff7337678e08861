"""Test that each served API has a rule of who may use it, that it is kept, and that no less is enough."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from broker.api.context import encoded
from broker.api.registry import served_apis
from broker.metadata.operations import SetAcls
from broker.security.authorizer.model import AclEntry, ResourcePattern
from kafkalog.protocol.acls import AclPatternType, AclPermission
from kafkalog.protocol.codec import decode_response
from kafkalog.protocol.messages import delete_topics, metadata
from kafkalog.protocol.schema import Struct
from tests.broker.api.authorization_rules import RULES
from tests.broker.api.rights import AUTHORIZATION, NAMES, T29, TOPIC, Kind, Need, Op, Rule, topic
from tests.broker.coordinator.support import Stored
from tests.broker.serving import TOPIC_ID, Serving
from tests.support.amount import mostly_exhaustive


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = {
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "transaction_state_log_replication_factor": "1",
        "transaction_state_log_num_partitions": "1",
        "transaction_state_log_min_isr": "1",
        "offsets_topic_replication_factor": "1",
        "delete_topic_enable": "false",
    }
    with Stored(tmp_path_factory.mktemp("rules"), settings) as parts:
        serving = Serving(parts, {api.request_type: api.handler for api in served_apis().values()})
        serving.run(serving.broker.groups.ready())
        yield serving


def grant(serving: Serving, needs: Iterable[Need]) -> None:
    """Give everybody these rights, and no others."""
    wanted: dict[ResourcePattern, set[AclEntry]] = {}
    for operation, kind in needs:
        for name in {NAMES[kind], "t2"} if kind is Kind.TOPIC else {NAMES[kind]}:
            pattern = ResourcePattern(kind, AclPatternType.LITERAL, name)
            wanted.setdefault(pattern, set()).add(
                AclEntry("User:ANONYMOUS", "127.0.0.1", operation, AclPermission.ALLOW)
            )
    present = dict.fromkeys(serving.parts.store.state.acls, frozenset[AclEntry]())
    changes = present | {pattern: frozenset(entries) for pattern, entries in wanted.items()}
    serving.loop.run_until_complete(
        serving.parts.store.commit(lambda state: [SetAcls(*change) for change in changes.items()])
    )


def refusals(serving: Serving, rule: Rule) -> set[int]:
    """Return the errors of authorization in the response to a rule's request."""
    try:
        response = serving.run(serving.ask(copy.copy(rule.message), rule.version))
    except AssertionError:
        # A lone broker has no part that would answer: the request was let through.
        return set()
    return set(codes(response, rule.version)) & AUTHORIZATION


def codes(value: Any, version: int) -> Iterator[int]:
    """Yield every error in a response."""
    if isinstance(value, list):
        for each in value:
            yield from codes(each, version)
    elif isinstance(value, Struct):
        for field in value.fields:
            if version in field.versions:
                found = getattr(value, field.name)
                if field.name.endswith("error_code"):
                    yield found
                else:
                    yield from codes(found, version)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_kept_and_no_less_is_enough(serving: Serving, name: str) -> None:
    rule = RULES[name]
    grant(serving, ())
    assert refusals(serving, rule) == {rule.denied}
    for way in rule.ways:
        for missing in way:
            grant(serving, [need for need in way if need != missing])
            assert refusals(serving, rule), f"{missing} is not needed"
        grant(serving, way)
        assert not refusals(serving, rule), f"{way} is not enough"


@pytest.mark.parametrize("name", RULES)
def test_every_version_can_carry_the_refusal(serving: Serving, name: str) -> None:
    message = RULES[name].message
    grant(serving, ())
    api = served_apis()[message.api_key]
    for version in range(api.min_version, api.max_version + 1):
        response = serving.run(serving.ask(copy.copy(message), version))
        chunks: list[Any] = encoded(response, version, 1)
        decode_response(type(message), version, b"".join(chunks)[4:])


@pytest.mark.parametrize("name", mostly_exhaustive(list(RULES), 4))
def test_a_right_on_something_else_is_none(serving: Serving, name: str) -> None:
    rule = RULES[name]
    every = [(operation, kind) for kind in NAMES for operation in Op if operation > Op.ALL]
    ways = {need for way in rule.ways for need in way}
    implying = {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.ALTER_CONFIGS}
    grant(serving, [need for need in every if need not in ways and need[0] not in implying])
    assert refusals(serving, rule) == {rule.denied}


def test_ids_are_not_told_to_those_who_may_not_know_of_the_topic(serving: Serving) -> None:
    grant(serving, ())
    named = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)])
    (found,) = serving.run(serving.ask(named, 12)).topics
    assert (found.name, found.topic_id, found.partitions) == (TOPIC, uuid.UUID(int=0), [])
    by_id = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=None, topic_id=TOPIC_ID)])
    (found,) = serving.run(serving.ask(by_id, 12)).topics
    assert (found.name, found.topic_id, found.partitions) == (None, TOPIC_ID, [])
    deletion = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=None, topic_id=TOPIC_ID)], timeout_ms=1000
    )
    (deleted,) = serving.run(serving.ask(deletion, 6)).responses
    assert (deleted.name, deleted.topic_id, deleted.error_code) == (None, TOPIC_ID, T29)
    grant(serving, [topic(Op.DESCRIBE)])
    (deleted,) = serving.run(serving.ask(deletion, 6)).responses
    assert (deleted.name, deleted.error_code) == (TOPIC, T29)

"""Tests of the registry's stored form: it is complete, is read back unchanged, and errors name damage."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.listeners import Endpoint
from broker.metadata.json_form import from_json, to_json
from broker.metadata.model import (
    BrokerRegistration,
    ClusterState,
    LeaderRecoveryState,
    MetadataError,
    PartitionState,
    TopicState,
)
from broker.security.tokens import Token
from kafkalog.protocol.scram import ScramCredential, ScramMechanism
from tests.broker.security.authorizer.naive import acls

names = st.text("abcXYZ019._-", min_size=1, max_size=20)
ids = st.integers(0, 1 << 31)
broker_ids = st.integers(0, 5)
replicas = st.lists(broker_ids, min_size=1, max_size=4, unique=True).map(tuple)
some = st.lists(broker_ids, max_size=3, unique=True).map(tuple)
configs = st.dictionaries(names, st.text(max_size=9), max_size=3)
partitions = st.builds(
    PartitionState,
    replicas,
    some,
    st.integers(-1, 5),
    ids,
    ids,
    ids,
    some,
    some,
    st.sampled_from(LeaderRecoveryState),
)
endpoints = st.builds(Endpoint, names, st.text(max_size=9), st.integers(0, 65535), st.just("PLAINTEXT"))
registrations = st.builds(
    BrokerRegistration, broker_ids, st.lists(endpoints, max_size=2).map(tuple), st.none() | names, ids
)


keys = st.binary(min_size=32, max_size=32)
credentials = st.builds(ScramCredential, st.binary(min_size=1), keys, keys, st.integers(4096, 16_384))


principals = st.builds("User:{}".format, names)
tokens = st.builds(Token, names, principals, principals, st.lists(principals, max_size=2).map(tuple), ids, ids, ids)


def by_name(found: Mapping[str, tuple[uuid.UUID, list[PartitionState], dict[str, str]]]) -> dict[str, TopicState]:
    return {name: TopicState(name, topic_id, tuple(held), config) for name, (topic_id, held, config) in found.items()}


states = st.builds(
    ClusterState,
    st.just("cluster"),
    st.integers(-1, 5),
    ids,
    st.lists(registrations, max_size=3).map(lambda found: {broker.broker_id: broker for broker in found}),
    st.dictionaries(names, st.tuples(st.uuids(), st.lists(partitions, max_size=4), configs), max_size=4).map(by_name),
    st.dictionaries(names, configs, max_size=3),
    st.dictionaries(names, configs, max_size=3),
    st.just({}),
    acls,
    st.frozensets(st.uuids(), max_size=3),
    st.integers(0, 1 << 62),
    ids,
    st.dictionaries(st.text(max_size=9), st.dictionaries(st.just(ScramMechanism.SHA_256), credentials), max_size=3),
    st.lists(tokens, max_size=2).map(lambda found: {token.token_id: token for token in found}),
)


@given(states)
def test_states_survive_as_text(state: ClusterState) -> None:
    text = to_json(state)
    assert from_json(text, "test") == state
    assert json.loads(text)["format"] == 2


@given(states, st.data())
def test_damaged_text_is_told_and_nothing_else(state: ClusterState, data: st.DataObject) -> None:
    text = to_json(state)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(['"', "[", "]", "{", "-", "x", "9", ""])) + text[at + 1 :]
    # Some damage leaves another registry that is well-formed; no other error comes out.
    with contextlib.suppress(MetadataError):
        assert isinstance(from_json(damaged, "somewhere"), ClusterState)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 9}', '{"format": 1, "cluster_id": "x"}', "\0", "[" * 9999]
)
def test_damage_is_named(text: str) -> None:
    with pytest.raises(MetadataError, match="somewhere"):
        from_json(text, "somewhere")


def test_columns_of_different_lengths_are_damage() -> None:
    topic = TopicState("t", uuid.uuid4(), (PartitionState((1,), (1,), 1),) * 2)
    text = to_json(ClusterState("c", topics={"t": topic})).replace('"leader": [1, 1]', '"leader": [1]')
    with pytest.raises(MetadataError, match="damaged"):
        from_json(text, "somewhere")


def test_the_first_format_is_read() -> None:
    """Registries of earlier releases: their only broker leads all that it holds."""
    topic_id = uuid.uuid4()
    text = json.dumps(
        {
            "format": 1,
            "revision": 7,
            "cluster_id": "c",
            "next_producer_id": 3000,
            "topics": {
                "t": {"id": str(topic_id), "partitions": [[4], [4]], "leader_epochs": [0, 2], "config": {"a": "b"}}
            },
            "broker_config": {"": {"x": "1"}},
            "deleting": [],
        }
    )
    held = (PartitionState((4,), (4,), 4, 0), PartitionState((4,), (4,), 4, 2))
    assert from_json(text, "test") == ClusterState(
        "c",
        topics={"t": TopicState("t", topic_id, held, {"a": "b"})},
        broker_config={"": {"x": "1"}},
        next_producer_id=3000,
        revision=7,
    )

"""Test names and cycles against the rules of MirrorMaker 2's replication policies."""

from __future__ import annotations

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.mirror.topics.naming import IdentityNaming, Naming, naming_of

DEFAULT = Naming("A", "B")
IDENTITY = IdentityNaming("A", "B")


def test_a_remote_topic_has_its_source_before_its_name() -> None:
    assert DEFAULT.remote("words") == "A.words"
    assert DEFAULT.remote("C.words") == "A.C.words"
    assert Naming("A", "B", "__").remote("words") == "A__words"


@pytest.mark.parametrize(
    ("topic", "origin", "upstream", "original"),
    [
        ("words", None, None, "words"),
        ("A.words", "A", "words", "words"),
        ("B.A.words", "B", "A.words", "words"),
        ("A.", None, None, "A."),
    ],
)
def test_a_name_tells_the_way(topic: str, origin: str | None, upstream: str | None, original: str) -> None:
    assert DEFAULT.origin(topic) == origin
    assert DEFAULT.upstream(topic) == upstream
    assert DEFAULT.original(topic) == original


@pytest.mark.parametrize(
    ("topic", "cycle"),
    [("words", False), ("C.words", False), ("B.words", True), ("C.B.words", True), ("A.words", False)],
)
def test_what_came_from_the_target_is_a_cycle(topic: str, cycle: bool) -> None:
    assert DEFAULT.is_cycle(topic) is cycle


@pytest.mark.parametrize(
    ("topic", "copy"),
    [("words", False), ("A.words", True), ("C.A.words", True), ("A.heartbeats", True), ("B.words", False)],
)
def test_what_came_from_the_source_is_a_copy(topic: str, copy: bool) -> None:
    assert DEFAULT.is_copy(topic) is copy


def test_identity_keeps_names_but_those_of_heartbeats() -> None:
    assert IDENTITY.remote("words") == "words"
    assert IDENTITY.remote("heartbeats") == "A.heartbeats"
    assert IDENTITY.original("A.heartbeats") == "heartbeats"
    assert not IDENTITY.is_cycle("words")
    assert IDENTITY.is_cycle("B.heartbeats")


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("words", False),
        ("__consumer_offsets", True),
        ("mm2-offsets.A.internal", True),
        ("connect-internal", True),
        (".hidden", True),
        ("internal", False),
        ("heartbeats", False),
    ],
)
def test_internal_topics(topic: str, internal: bool) -> None:
    assert DEFAULT.is_internal(topic) is internal


def test_the_mirrors_own_topics_have_the_names_of_mirrormaker() -> None:
    assert DEFAULT.checkpoints == "A.checkpoints.internal"
    assert DEFAULT.offset_syncs == "mm2-offset-syncs.A.internal"
    assert DEFAULT.offsets == "mm2-offsets.A.internal"
    assert Naming("A", "B", "_").checkpoints == "A_checkpoints_internal"


def test_a_policy_is_named_as_here_or_as_in_mirrormaker() -> None:
    assert type(naming_of("default", "A", "B")) is Naming
    assert type(naming_of("org.apache.kafka.connect.mirror.IdentityReplicationPolicy", "A", "B")) is IdentityNaming


@pytest.mark.parametrize(
    ("policy", "source", "target", "words"),
    [
        ("Mine", "A", "B", "expected default or identity"),
        ("default", "A", "A", "--source-alias"),
        ("default", "a.b", "B", "no alias"),
        ("default", "A", "", "no alias"),
    ],
)
def test_what_cannot_be_used_is_refused(policy: str, source: str, target: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        naming_of(policy, source, target)

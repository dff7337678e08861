"""Test what is mirrored."""

from __future__ import annotations

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.mirror.topics.naming import IdentityNaming, Naming
from kafkalog.mirror.topics.selection import CONFIGS_EXCLUDE, TOPICS_EXCLUDE, MirroredTopics, NameFilter, patterns


def topics(include: str = ".*", exclude: str = TOPICS_EXCLUDE, **more: object) -> MirroredTopics:
    names = NameFilter.of(include, exclude, "topics")
    naming = more.pop("naming", Naming("A", "B"))
    return MirroredTopics(names.include, naming, names, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topic", "wanted"),
    [
        ("words", True),
        ("C.words", True),
        ("B.words", False),
        ("heartbeats", True),
        ("B.heartbeats", False),
        ("A.checkpoints.internal", False),
        ("old.replica", False),
        ("__transaction_state", False),
        ("wordsinternal", True),
    ],
)
def test_by_default_all_but_internal_topics_and_cycles_are_mirrored(topic: str, wanted: bool) -> None:
    assert topics().allows(topic) is wanted


def test_the_list_has_whole_names_between_commas() -> None:
    chosen = topics("words, clicks[0-9]+")
    assert chosen.select(["words", "words2", "clicks7", "clicks", "heartbeats"]) == {"words", "clicks7", "heartbeats"}
    assert not topics("words", heartbeats=False).allows("heartbeats")


def test_internal_topics_stay_out_even_if_they_are_named() -> None:
    assert not topics("mm2-offsets.A.internal", exclude="").allows("mm2-offsets.A.internal")


def test_what_a_reverse_mirror_writes_stays_out() -> None:
    chosen = topics(naming=IdentityNaming("A", "B"), returning=frozenset({"words"}))
    assert not chosen.allows("words")
    assert chosen.allows("clicks")


@pytest.mark.parametrize("topic", ["A.words", "C.A.words", "A.heartbeats"])
def test_copies_stay_out_where_a_cluster_is_mirrored_into_itself(topic: str) -> None:
    assert topics().allows(topic)
    assert not topics(into_itself=True).allows(topic)
    assert topics(into_itself=True).allows("words")


def test_configurations_of_the_targets_own_stay_out() -> None:
    copied = NameFilter.of(".*", CONFIGS_EXCLUDE, "config.properties")
    assert copied.allows("retention.ms")
    assert not copied.allows("min.insync.replicas")


def test_an_empty_list_matches_nothing() -> None:
    assert patterns("", "topics").fullmatch("") is None


def test_a_bad_expression_is_named() -> None:
    with pytest.raises(ConfigError, match=r"topics=a,\("):
        patterns("a,(", "topics")

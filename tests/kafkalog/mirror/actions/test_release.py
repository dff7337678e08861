"""Test `kafkalog mirror release`: what a mirror has claimed becomes free for the other direction."""

from __future__ import annotations

import re

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.producer import Producer
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.internal_topics.stored import read_positions
from kafkalog.mirror.keeping.topics import adopt
from kafkalog.protocol.errors import PolicyViolationError
from tests.kafkalog.mirror.conftest import IDENTITY, Clusters, StartMirror, read_all, settings_of
from tests.kafkalog.mirror.keeping.kept import KEEP
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import call
from tests.support.waiting import wait_until


def test_a_claim_of_a_mirror_that_is_gone_does_not_block_the_other_direction(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"claimed-{alias}"
    for address in clusters:
        make(address, topic)
    words = ["mirror", "release", "--source", clusters.source, "--target", clusters.target, "--naming", "identity"]
    words += ["--source-alias", alias, "--topics", topic]
    forth = start_mirror(topic, **IDENTITY)
    wait_until(lambda: bool(forth.progress.partitions()), "the mirror has claimed the topic")
    assert "stop its processes first" in call(*words, check=2).err
    forth.stop()
    assert call(*words).out == [f"Released topic {topic}."]
    assert call(*words).out == []
    assert read_positions(forth.settings) == {}
    write(clusters.target, topic, range(3))
    start_mirror(topic, reverse=True, **IDENTITY)
    read_all(clusters.source, topic, 3)


def test_claims_of_both_directions_that_keep_offsets_are_given_up(
    clusters: Clusters, start_mirror: StartMirror, alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Two processes have died after each has claimed the other one's topic; neither direction mirrors it then."""
    topic = f"claimed-{alias}"
    both = [settings_of(clusters, alias, topic, reverse=reverse, **IDENTITY, **KEEP) for reverse in (False, True)]
    for settings, address in zip(both, (clusters.target, clusters.source), strict=True):
        make(address, topic)
        with Admin(settings.target_client) as target:
            adopt(settings, target, [topic], LeaderlessPartitions())
    mirrors = [start_mirror(topic, reverse=reverse, **IDENTITY, **KEEP) for reverse in (False, True)]
    for one, other in (("target", alias), (alias, "target")):
        # There may be topics of other tests beside this one.
        told = re.compile(rf"not mirroring topics that the mirror from {one} to {other} writes: .*{topic}")
        wait_until(lambda told=told: told.search(caplog.text), "each leaves the topic to the other")  # type: ignore[misc]
    for mirror in mirrors:
        assert mirror.stop() is None
    # The direction from the source is to mirror the topic: the other one gives it up.
    words = ["mirror", "release", "--source", clusters.target, "--target", clusters.source, "--naming", "identity"]
    words += ["--source-alias", "target", "--target-alias", alias, "--offsets", "keep", "--topics", topic]
    assert call(*words).out == [f"Released topic {topic}."]
    assert call(*words).out == []
    write(clusters.source, topic, range(3), acks="all")
    for reverse in (False, True):
        start_mirror(topic, reverse=reverse, **IDENTITY, **KEEP)
    read_all(clusters.target, topic, 3)


def test_topics_that_keep_offsets_are_named_as_in_the_source(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic, other = f"words-{alias}", f"other-{alias}"
    for name in (topic, other):
        make(clusters.source, name)
    mirror = start_mirror(f"{topic}|{other}", **KEEP)
    wait_until(lambda: len(mirror.progress.partitions()) == 2, "the mirror has both topics")
    words = ["mirror", "release", "--source", clusters.source, "--target", clusters.target, "--source-alias", alias]
    words += ["--offsets", "keep", "--topics", topic]
    assert "stop its processes first" in call(*words, check=2).err
    mirror.stop()
    assert call(*words).out == [f"Released topic {topic}."]
    with Producer(clusters.client("target")) as producer:
        # Producers may write to the one that is no mirror any more.
        producer.send(f"{alias}.{topic}", b"v").result(60)
        with pytest.raises(PolicyViolationError):
            producer.send(f"{alias}.{other}", b"v").result(60)


def test_a_target_without_topics_that_keep_offsets_has_nothing_to_give_up(clusters: Clusters, alias: str) -> None:
    make(clusters.target, alias)
    words = ["mirror", "release", "--source", clusters.source, "--target", clusters.target, "--naming", "identity"]
    assert call(*words, "--offsets", "keep", "--topics", alias).out == []

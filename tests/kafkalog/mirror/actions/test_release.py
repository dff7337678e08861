"""Test `kafkalog mirror release`: what a mirror has claimed becomes free for the other direction."""

from __future__ import annotations

from kafkalog.mirror.internal_topics.stored import read_positions
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import call
from tests.support.waiting import wait_until

IDENTITY = {"replication_policy_class": "identity"}


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


def test_kept_offsets_are_no_positions(clusters: Clusters, alias: str) -> None:
    words = ["mirror", "release", "--source", clusters.source, "--target", clusters.target, "--offsets", "keep"]
    assert "kafkalog.mirror.source" in call(*words, "--topics", alias, check=2).err

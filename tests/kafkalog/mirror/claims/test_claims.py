"""Test who takes a topic that keeps its name and that both directions want, after processes have died."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.stored import read_positions, returning_topics
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import PolicyViolationError, TopicAlreadyExistsError
from tests.kafkalog.mirror.conftest import IDENTITY, Clusters, Mirror, StartMirror, read_all, settings_of
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until


def claim(settings: MirrorSettings, tp: TopicPartition) -> None:
    """Claim a topic as a process does that dies right after it."""
    with contextlib.suppress(TopicAlreadyExistsError):
        make(settings.target_client["bootstrap.servers"], settings.naming.offsets, cleanup_policy="compact")
    task = MirrorTask(settings, 0)
    task.start()
    task.store({tp: 0})
    task.close()


def test_claims_of_both_directions_do_not_block_a_topic_for_ever(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"both-{alias}"
    both = [settings_of(clusters, alias, topic, reverse=reverse, **IDENTITY) for reverse in (False, True)]
    for settings, address in zip(both, clusters, strict=True):
        make(address, topic)
        claim(settings, TopicPartition(topic, 0))
    mirrors = [start_mirror(topic, reverse=reverse, **IDENTITY) for reverse in (False, True)]
    wait_until(
        lambda: (
            sorted(bool(mirror.progress.partitions()) for mirror in mirrors) == [False, True]
            and sum(topic in returning_topics(settings) for settings in both) == 1
        ),
        "one direction has the topic",
    )
    forth = bool(mirrors[0].progress.partitions())
    write(clusters.source if forth else clusters.target, topic, range(3))
    for address in clusters:
        read_all(address, topic, 3)


def test_the_direction_that_has_mirrored_records_keeps_a_topic_that_both_claim(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"ours-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(3))
    forth = start_mirror(topic, **IDENTITY)
    read_all(clusters.target, topic, 3)
    forth.stop()
    other = settings_of(clusters, alias, topic, reverse=True, **IDENTITY)
    claim(other, TopicPartition(topic, 0))
    start_mirror(topic, **IDENTITY)
    write(clusters.source, topic, range(3, 6))
    read_all(clusters.target, topic, 6)
    start_mirror(topic, reverse=True, **IDENTITY)
    wait_until(
        lambda: TopicPartition(topic, 0) not in read_positions(other), "the other direction has withdrawn its claim"
    )
    read_all(clusters.source, topic, 6)


def test_one_direction_keeps_the_offsets_of_an_empty_topic_that_both_clusters_have(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"kept-{alias}"
    for address in clusters:
        make(address, topic)
    mirrors = [
        start_mirror(topic, reverse=reverse, replication_offsets="keep", **IDENTITY) for reverse in (False, True)
    ]
    wait_until(
        lambda: sorted(bool(mirror.progress.partitions()) for mirror in mirrors) == [False, True],
        "one direction has the topic",
    )
    forth = bool(mirrors[0].progress.partitions())
    with Producer(clusters.client("source" if forth else "target")) as producer:

        def takes(value: bytes) -> bool:
            """Write a record; return False where a mirror has claimed the topic, perhaps only until it gives way."""
            try:
                producer.send(topic, value).result(60)
            except PolicyViolationError:
                return False
            return True

        for value in (b"a", b"b", b"c"):
            wait_until(partial(takes, value), "the cluster whose topic is mirrored takes records")
    for address in clusters:
        read_all(address, topic, 3)


@pytest.mark.parametrize("policy", ["default", "identity"])
def test_latest_is_where_the_first_worker_found_the_end(clusters: Clusters, alias: str, policy: str) -> None:
    """Also if that one fails before it has stored anything: what was written meanwhile is mirrored."""
    topic, tp = f"late-{alias}", TopicPartition(f"late-{alias}", 0)
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    more = {"auto_offset_reset": "latest", "replication_policy_class": policy}
    settings = settings_of(clusters, alias, topic, reverse=False, **more)
    mirror = Mirror(settings)
    try:
        wait_until(lambda: mirror.progress.late_starts == {tp: 10}, "the end is noted")
    finally:
        mirror.stop()
    other = settings_of(clusters, f"{alias}x", topic, reverse=False, **more)
    mirror = Mirror(other, {tp: 7})
    try:
        read_all(clusters.target, other.naming.remote(topic), 3)
    finally:
        mirror.stop()

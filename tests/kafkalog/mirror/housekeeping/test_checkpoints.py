"""Test that groups go on in the target where they stopped in the source."""

from __future__ import annotations

import pytest

from kafkalog.client.admin.groups.descriptions import CommittedOffset
from kafkalog.client.consumer import Consumer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.housekeeping.checkpoints import is_news
from kafkalog.mirror.housekeeping.group_positions import to_commit
from kafkalog.mirror.internal_topics.compacted import read_topic
from kafkalog.mirror.internal_topics.formats import Checkpoint, Heartbeat
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, committed, read_all
from tests.kafkalog.mirror.housekeeping.support import ON, checkpoints, commit
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

TP = TopicPartition("A.words", 0)


def checkpoint(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", TP, upstream, downstream)


@pytest.mark.parametrize(
    ("new", "last", "news"),
    [
        ((5, 5), None, True),
        ((6, 6), (5, 5), True),
        ((5, 5), (5, 5), False),
        ((6, 4), (5, 5), False),
        ((6, 5), (5, 5), False),
        ((4, 3), (5, 5), True),
    ],
)
def test_a_group_goes_back_only_if_it_did_in_the_source(
    new: tuple[int, int], last: tuple[int, int] | None, news: bool
) -> None:
    assert is_news(checkpoint(*new), None if last is None else checkpoint(*last)) is news


def test_a_group_without_members_only_goes_forward() -> None:
    mine = {TP: checkpoint(5, 6), TopicPartition("A.words", 1): checkpoint(1, 1)}
    other = TopicPartition("A.words", 1)
    assert to_commit(mine, {}) == {TP: CommittedOffset(6), other: CommittedOffset(1)}
    assert to_commit(mine, {TP: CommittedOffset(6), other: CommittedOffset(0)}) == {other: CommittedOffset(1)}


def test_a_group_goes_on_in_the_target(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, group, busy = f"words-{alias}", f"readers-{alias}", f"busy-{alias}"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    mirror = start_mirror(topic, groups=f".*-{alias}", **ON)
    read_all(clusters.target, remote.topic, 10)
    mirror.stop()
    write(clusters.source, topic, range(10, 30))
    with Consumer({**clusters.client("target"), "group.id": busy}) as consumer:
        consumer.subscribe([remote.topic])
        wait_until(lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()), "the group has a member")
        commit(clusters.source, group, topic, 15)
        commit(clusters.source, busy, topic, 15)
        start_mirror(topic, groups=f".*-{alias}", **ON)
        (found,) = read_all(clusters.target, remote.topic, 30).values()
        # Between the two processes are the marker of a transaction, and so different offsets.
        wanted = next(record.offset for record in found if record.value == b"v15")
        assert wanted != 15
        wait_until(lambda: checkpoints(clusters, alias, group) == {remote: (15, wanted)}, "the position is translated")
        wait_until(lambda: committed(clusters.target, group) == {remote: wanted}, "the position is committed")
        assert checkpoints(clusters, alias, busy) == {remote: (15, wanted)}
        assert remote not in committed(clusters.target, busy)
    commit(clusters.source, group, topic, 30)
    end = found[-1].offset + 1
    wait_until(lambda: committed(clusters.target, group) == {remote: end}, "the position follows")
    # What a group does in the target is not taken back.
    commit(clusters.source, group, topic, 20)
    wait_until(lambda: checkpoints(clusters, alias, group)[remote][0] == 20, "the group goes back in the source")
    assert committed(clusters.target, group) == {remote: end}


def test_offsets_before_an_earlier_process_are_translated_by_what_it_stored(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic, group = f"old-{alias}", f"readers-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    mirror = start_mirror(topic, groups=group, **ON)
    read_all(clusters.target, f"{alias}.{topic}", 10)
    mirror.stop()
    commit(clusters.source, group, topic, 10)
    start_mirror(topic, groups=group, **ON)
    wait_until(lambda: bool(checkpoints(clusters, alias, group)), "the position is translated")
    ((upstream, downstream),) = checkpoints(clusters, alias, group).values()
    assert (upstream, downstream) == (10, 10)


def test_heartbeats_beat_on_both_sides(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    start_mirror("none", emit_heartbeats_enabled="true", heartbeats_replication_enabled="true")

    def beats(side: str, topic: str) -> set[tuple[str, str]]:
        records = read_topic(clusters.client(side), topic, 30.0)
        return {Heartbeat.read(record.key, record.value)[:2] for record in records}

    wait_until(lambda: (alias, "target") in beats("target", "heartbeats"), "a heartbeat in the target")
    wait_until(lambda: ("target", alias) in beats("source", "heartbeats"), "a heartbeat in the source")
    wait_until(lambda: ("target", alias) in beats("target", f"{alias}.heartbeats"), "a heartbeat came over")

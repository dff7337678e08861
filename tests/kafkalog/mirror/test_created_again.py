"""Test mirrors of topics that are deleted and created again in the source, as they run and while they do not."""

from __future__ import annotations

import logging

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.positions.created_again import topic_ids
from kafkalog.mirror.internal_topics.stored import read_kept, read_stored
from kafkalog.mirror.settings import MirrorSettings
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.created_again import create_again
from tests.kafkalog.mirror.keeping.kept import KEEP, fails
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

RUNNING = pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
ALL = {"emit_checkpoints_enabled": "true"}


def named_as_in_the_source(clusters: Clusters, settings: MirrorSettings, tp: TopicPartition, next_offset: int) -> bool:
    """Tell whether a position is stored with the id that the topic has now."""
    with Admin(clusters.client("source")) as admin:
        now = topic_ids(admin, [tp.topic])[tp.topic]
    stored = read_stored(settings).get(tp)
    return stored is not None and stored[:2] == (next_offset, now)


@RUNNING
@pytest.mark.parametrize("naming", ["default", "identity"])
def test_the_new_topic_comes_whole_behind_the_old_one(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    naming: str,
    running: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The new topic is longer than the position in the old one, which would be one in the new one, too."""
    topic = f"again-{alias}"
    tp = TopicPartition(topic, 0)
    remote = topic if naming == "identity" else f"{alias}.{topic}"
    start = {"replication_policy_class": naming, **ALL}
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **start)
    wait_until(lambda: named_as_in_the_source(clusters, mirror.settings, tp, 5), "the position is stored")
    if not running:
        mirror.stop()
    with caplog.at_level(logging.WARNING, logger="kafkalog.mirror"):
        create_again(clusters, topic)
        write(clusters.source, topic, range(100, 110))
        if not running:
            mirror = start_mirror(topic, **start)
        (found,) = read_all(clusters.target, remote, 15).values()
        wait_until(lambda: named_as_in_the_source(clusters, mirror.settings, tp, 10), "the new position is stored")
    assert [record.value for record in found] == [b"v%d" % number for number in (*range(5), *range(100, 110))]
    said = [each.getMessage() for each in caplog.records if "from its beginning" in each.getMessage()]
    line = (
        f"topic {topic} was deleted and created again in the source: mirroring the new one from its beginning, behind "
        "the records of the old one (partitions 0)"
    )
    assert said == [line]
    first = found[5].offset
    # The position is stored a moment before the mirror knows it.
    wait_until(lambda: mirror.progress.translate(tp, 0) == first, "offsets of the new topic are translated")
    mirror.stop()
    # The next process knows the new topic alone.
    later = start_mirror(topic, **start)
    wait_until(lambda: tp in later.progress.partitions(), "the next process has it")
    assert [later.progress.translate(tp, offset) for offset in (0, 3, 9)] == [first, first + 3, first + 9]
    write(clusters.source, topic, range(110, 112))
    assert [each.value for each in read_all(clusters.target, remote, 17)[0]][15:] == [b"v110", b"v111"]


def test_syncs_of_the_old_topic_say_nothing_about_an_empty_new_one(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"empty-{alias}"
    tp = TopicPartition(topic, 0)
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **ALL)
    wait_until(lambda: named_as_in_the_source(clusters, mirror.settings, tp, 5), "the position is stored")
    mirror.stop()
    create_again(clusters, topic)
    later = start_mirror(topic, **ALL)
    wait_until(lambda: tp in later.progress.partitions(), "the next process has it")
    assert later.progress.translate(tp, 3) is None
    assert later.progress.partitions()[tp].next_offset is None


@RUNNING
def test_kept_offsets_do_not_go_back(clusters: Clusters, start_mirror: StartMirror, alias: str, running: bool) -> None:
    """The last record of the old topic is the one at its offset in the new one, too, so only the ids differ."""
    topic = f"kept-{alias}"
    tp = TopicPartition(topic, 0)
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **KEEP)
    assert len(read_all(clusters.target, f"{alias}.{topic}", 5)[0]) == 5
    assert {each for each in read_kept(mirror.settings) if each.topic == topic} == {tp, TopicPartition(topic, 1)}
    if not running:
        mirror.stop()
    create_again(clusters, topic, 2)
    write(clusters.source, topic, range(8))
    message = fails(mirror if running else start_mirror(topic, **KEEP))
    assert message == (
        f"topic {topic} of the source was deleted and created again, and the target has the records of the old one. "
        f"Delete the topic {alias}.{topic} in the target to mirror it anew, or leave it out by --exclude"
    )
    with Admin(clusters.client("target")) as admin:
        admin.delete_topics([f"{alias}.{topic}"])
        wait_until(lambda: f"{alias}.{topic}" not in admin.list_topics(), "the old one is gone")
    start_mirror(topic, **KEEP)
    assert len(read_all(clusters.target, f"{alias}.{topic}", 8)[0]) == 8


def test_a_kept_topic_without_records_may_be_created_again(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"none-{alias}"
    tp = TopicPartition(topic, 0)
    make(clusters.source, topic)
    mirror = start_mirror(topic, **KEEP)
    wait_until(lambda: tp in read_kept(mirror.settings), "the topic is known")
    before = read_kept(mirror.settings)[tp]
    create_again(clusters, topic)
    write(clusters.source, topic, range(8))
    assert len(read_all(clusters.target, f"{alias}.{topic}", 8)[0]) == 8
    assert read_kept(mirror.settings)[tp] != before

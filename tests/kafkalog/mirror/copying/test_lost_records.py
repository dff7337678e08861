"""Test mirrors of partitions that have lost their last records, as in an unclean election."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.assignor import task_of
from kafkalog.mirror.copying.created_again import topic_ids
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.stored import read_positions
from kafkalog.mirror.settings import MirrorSettings
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

ALL = {"emit_checkpoints_enabled": "true"}


def values(numbers: range) -> list[bytes]:
    return [b"v%d" % number for number in numbers]


def store(settings: MirrorSettings, tp: TopicPartition, position: int, ids: Mapping[str, UUID]) -> None:
    """Store a position as a mirror does that has read more than there is now."""
    task = MirrorTask(settings, task_of(tp, settings.tasks), ids)
    try:
        task.start()
        task.store({tp: position})
    finally:
        task.close()


def test_a_source_that_lost_records_goes_on_at_its_end(
    clusters: Clusters, start_mirror: StartMirror, alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, tp = f"lost-{alias}", TopicPartition(f"lost-{alias}", 0)
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **ALL)
    wait_until(lambda: read_positions(mirror.settings).get(tp) == 5, "the position is stored")
    mirror.stop()
    with Admin(clusters.client("source")) as admin:
        ids = topic_ids(admin, [topic])
    store(mirror.settings, tp, 100, ids)
    with caplog.at_level(logging.WARNING, logger="kafkalog.mirror"):
        later = start_mirror(topic, **ALL)
        wait_until(lambda: read_positions(mirror.settings).get(tp) == 5, "the position is set back")
        wait_until(lambda: tp in later.progress.partitions(), "the mirror goes on")
    assert later.progress.partitions()[tp].next_offset == 5
    (said,) = (each.getMessage() for each in caplog.records if str(tp) in each.getMessage())
    assert said == (
        f"{tp} ends at offset 5 in the source and was mirrored up to offset 100: the source has lost records, which "
        "the target keeps. What the source gets from offset 5 on is mirrored behind them"
    )
    # What lies before it is where it was, as long as nothing came.
    assert later.progress.translate(tp, 3) == 3
    write(clusters.source, topic, range(5, 8))
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 8).values()
    assert [record.value for record in found] == values(range(8))
    last = found[-1].offset
    wait_until(lambda: later.progress.translate(tp, 7) == last, "the new offsets are translated")


def test_a_position_without_the_id_of_its_topic_may_be_in_another_topic(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    """The topic may have been deleted and created again, so that none of its records was mirrored."""
    topic, tp = f"lost-{alias}", TopicPartition(f"lost-{alias}", 0)
    make(clusters.source, topic)
    mirror = start_mirror(topic, **ALL)
    wait_until(lambda: tp in mirror.progress.partitions(), "the mirror has its topics")
    mirror.stop()
    store(mirror.settings, tp, 100, {})
    write(clusters.source, topic, range(5))
    start_mirror(topic, **ALL)
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 5).values()
    assert [record.value for record in found] == values(range(5))

"""Test that a new process translates old positions exactly, also where compaction has left one sync of a partition."""

from __future__ import annotations

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.compacted import read_topic
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.housekeeping.support import ON, checkpoints, commit
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until


def test_old_positions_are_exact_after_compaction(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, syncs = f"words-{alias}", f"mm2-offset-syncs.{alias}.internal"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    positions = (0, 2, 5, 8, 13, 15)
    make(clusters.source, topic)
    mirror = start_mirror(topic, groups=f".*-{alias}", **ON)
    for number in range(5):
        write(clusters.source, topic, range(3 * number, 3 * number + 3))
        (found,) = read_all(clusters.target, remote.topic, 3 * number + 3).values()
    mirror.stop()
    newest = max(record.offset for record in read_topic(clusters.client("target"), syncs, 30.0))
    with Admin(clusters.client("target")) as admin:
        deletes = [ConfigChange("cleanup.policy", "delete")]
        admin.incremental_alter_configs({ConfigResource.topic(syncs): deletes})
        admin.delete_records({TopicPartition(syncs, 0): newest})
    assert sum(1 for _ in read_topic(clusters.client("target"), syncs, 30.0)) == 1
    for position in positions:
        commit(clusters.source, f"at{position}-{alias}", topic, position)
    start_mirror(topic, groups=f".*-{alias}", **ON)
    offsets = [each.offset for each in found]
    assert offsets != list(range(15))
    for position in positions:
        wait_until(
            lambda group=f"at{position}-{alias}": bool(checkpoints(clusters, alias, group)),  # type: ignore[misc]
            "the position is translated",
        )
        wanted = offsets[position] if position < 15 else offsets[-1] + 1
        assert checkpoints(clusters, alias, f"at{position}-{alias}") == {remote: (position, wanted)}

"""Checkpoints of a mirror, and the settings that have it write them."""

from __future__ import annotations

from kafkalog.client.admin import Admin
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.compacted import read_topic
from kafkalog.mirror.internal_topics.formats import Checkpoint
from tests.kafkalog.mirror.conftest import Clusters

ON = {
    "emit_checkpoints_enabled": "true",
    "emit_checkpoints_interval_seconds": "1",
    "sync_group_offsets_enabled": "true",
    "sync_group_offsets_interval_seconds": "1",
}


def checkpoints(clusters: Clusters, alias: str, group: str) -> dict[TopicPartition, tuple[int, int]]:
    records = read_topic(clusters.client("target"), f"{alias}.checkpoints.internal", 30.0)
    found = [Checkpoint.read(record.key, record.value) for record in records]
    return {each.partition: (each.upstream, each.downstream) for each in found if each.group == group}


def commit(address: str, group: str, topic: str, offset: int) -> None:
    with Admin({"bootstrap.servers": address}) as admin:
        admin.groups.alter_offsets(group, {TopicPartition(topic, 0): offset})

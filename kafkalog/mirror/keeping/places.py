"""Make the places of partitions whose offsets are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkalog.client.admin import Admin
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.batching.size_limits import size_limits
from kafkalog.mirror.keeping.sender import Place
from kafkalog.mirror.settings import MirrorSettings


def places_of(
    settings: MirrorSettings,
    target: Admin,
    partitions: Collection[TopicPartition],
    stated: Mapping[str, bool],
    positions: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Place]:
    """Return the places of partitions of the source.

    `stated` tells of each topic whether the target takes its offsets as they are stated, and `positions` where the logs
    end that are not empty.
    """
    limits = size_limits(settings, target, [topic for topic, each in stated.items() if not each])
    return {
        tp: Place(
            TopicPartition(settings.naming.remote(tp.topic), tp.partition),
            stated[tp.topic],
            positions.get(tp, 0),
            limits.get(tp.topic, 0),
        )
        for tp in partitions
    }

"""Translate the positions of consumer groups into offsets of the target: MM2's checkpoints (KIP-382).

A checkpoint says: the group is at this offset of a topic in the source, which is that offset in the target. The topic
`SOURCE.checkpoints.internal` holds the newest one of each group and partition, for `RemoteClusterUtils` of Kafka's
`connect-mirror-client`. Each process does this for the partitions that it mirrors. Source: `MirrorCheckpointTask`,
`CheckpointStore`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import CommittedOffset, is_of_consumers
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.internal_topics.formats import Checkpoint
from kafkalog.mirror.internal_topics.stored import read_checkpoints
from kafkalog.mirror.settings import MirrorSettings


def is_news(new: Checkpoint, last: Checkpoint | None) -> bool:
    """Tell whether a checkpoint says more than the last one of its group and partition.

    A group only goes back in the target where it has gone back in the source.
    """
    return last is None or new.upstream < last.upstream or new.downstream > last.downstream


class Checkpoints:
    """The checkpoints of the partitions that `progress` has; for one thread."""

    def __init__(
        self, settings: MirrorSettings, progress: Progress, source: Admin, target: Admin, producer: Producer
    ) -> None:
        self._settings, self._progress = settings, progress
        self._source, self._target = source, target
        self._producer = producer
        self._naming = settings.naming
        self._groups = settings.group_filter
        self._newest: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._read_at = -1

    @property
    def newest(self) -> Mapping[str, Mapping[TopicPartition, Checkpoint]]:
        """The newest checkpoint of each group and partition of the target, as of the last `emit`."""
        return self._newest

    @property
    def are_current(self) -> bool:
        """Return whether `newest` has what others have written of the partitions that this process has now."""
        return self._read_at == self._progress.assignments

    def emit(self) -> None:
        """Write a checkpoint of each group and partition that has something new.

        Raises:
            KafkaError, ClientError: A cluster cannot be asked, or does not take the checkpoints.
        """
        assignments, mine = self._progress.assignments, self._progress.partitions()
        if not mine:
            return
        if assignments != self._read_at:
            # Others may have written checkpoints of what this process has got.
            self._newest = read_checkpoints(self._settings)
            self._read_at = assignments
        groups = [each.group for each in self._source.groups.list_groups() if is_of_consumers(each.protocol_type)]
        committed = self._source.groups.offsets([group for group in groups if self._groups.allows(group)])
        here = [(group, tp, at) for group, offsets in committed.items() for tp, at in offsets.items() if tp in mine]
        self._progress.groups_are(
            {(group, tp): (at.offset, self._progress.translate(tp, at.offset)) for group, tp, at in here}
        )
        fresh = [each for group, tp, at in here if (each := self._checkpoint(group, tp, at)) is not None]
        futures = [
            self._producer.send(self._naming.checkpoints, each.value(), each.key(), partition=0) for each in fresh
        ]
        for future in futures:
            future.result()
        for each in fresh:
            self._newest.setdefault(each.group, {})[each.partition] = each

    def _checkpoint(self, group: str, tp: TopicPartition, position: CommittedOffset) -> Checkpoint | None:
        downstream = self._progress.translate(tp, position.offset)
        if downstream is None:
            return None
        target = TopicPartition(self._naming.remote(tp.topic), tp.partition)
        found = Checkpoint(group, target, position.offset, downstream, position.metadata)
        return found if is_news(found, self._newest.get(group, {}).get(target)) else None

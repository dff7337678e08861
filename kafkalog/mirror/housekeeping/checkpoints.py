"""Translate the positions of consumer groups into offsets of the target: MM2's checkpoints (KIP-382).

A checkpoint says: the group is at this offset of a topic in the source, which is that offset in the target. The topic
`SOURCE.checkpoints.internal` holds the newest one of each group and partition, for `RemoteClusterUtils` of Kafka's
`connect-mirror-client`. Each process does this for the partitions that it mirrors. Source: `MirrorCheckpointTask`,
`CheckpointStore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import CommittedOffset
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import PartitionProgress, Progress
from kafkalog.mirror.housekeeping.refusals import Refusals, ask_each, consumer_groups, offsets_of
from kafkalog.mirror.housekeeping.target_logs import TargetLogs, passes_over
from kafkalog.mirror.internal_topics.formats import Checkpoint
from kafkalog.mirror.internal_topics.stored import read_checkpoints
from kafkalog.mirror.internal_topics.topic_ids import id_headers
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.schema import ZERO_UUID


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
        self._source, self._producer = source, producer
        self._logs = TargetLogs(target)
        self._refusals = Refusals()
        self._naming = settings.naming
        self._groups = settings.group_filter
        self._newest: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._read_at = -1
        self._read_for: Mapping[str, UUID] = {}
        """The ids of the target's topics when the checkpoints were read."""

    @property
    def newest(self) -> Mapping[str, Mapping[TopicPartition, Checkpoint]]:
        """The newest checkpoint of each group and partition of the target, as of the last `refresh`."""
        return self._newest

    @property
    def target_ids(self) -> Mapping[str, UUID]:
        """The ids of the target's topics, as of the last `refresh`."""
        return self._logs.ids

    @property
    def are_current(self) -> bool:
        """Return whether `newest` has what others have written of the partitions that this process has now."""
        return self._read_at == self._progress.assignments

    def is_usable(self, checkpoint: Checkpoint) -> bool:
        """Return whether the target has the offset of a checkpoint, as of the last `refresh`."""
        return self._logs.has(checkpoint.partition, checkpoint.downstream)

    def refresh(self) -> None:
        """Look at the target's topics, and forget checkpoints of those that were deleted and created again.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        self._refresh(self._progress.assignments, self._progress.partitions())

    def _refresh(self, assignments: int, mine: Mapping[TopicPartition, PartitionProgress]) -> None:
        remote = {self._remote(tp): tp for tp in mine}
        self._logs.look(remote)
        if assignments != self._read_at or self._logs.ids != self._read_for:
            # Others may have written checkpoints of what this process has got.
            self._newest = read_checkpoints(self._settings, self._logs.ids)
            self._read_at, self._read_for = assignments, dict(self._logs.ids)
        runs = {there: tuple(mine[here].offsets.runs) for there, here in remote.items()}
        for found in self._newest.values():
            wrong = [tp for tp, each in found.items() if passes_over(runs.get(tp, ()), each.upstream, each.downstream)]
            for tp in wrong:
                del found[tp]

    def emit(self) -> None:
        """Write a checkpoint of each group and partition that has something new.

        Raises:
            KafkaError, ClientError: A cluster cannot be asked, or does not take the checkpoints.
        """
        assignments, mine = self._progress.assignments, self._progress.partitions()
        if not mine:
            return
        self._refresh(assignments, mine)
        groups = consumer_groups(self._source, "source", self._refusals)
        wanted = [group for group in groups if self._groups.allows(group)]
        committed = ask_each(wanted, offsets_of(self._source), self._say_refused)
        here = [(group, tp, at) for group, offsets in committed.items() for tp, at in offsets.items() if tp in mine]
        self._progress.groups_are({(group, tp): (at.offset, self._translate(tp, at.offset)) for group, tp, at in here})
        fresh = [each for group, tp, at in here if (each := self._checkpoint(group, tp, at)) is not None]
        futures = [
            self._producer.send(
                self._naming.checkpoints,
                each.value(),
                each.key(),
                id_headers(self._logs.ids.get(each.partition.topic, ZERO_UUID)),
                partition=0,
            )
            for each in fresh
        ]
        for future in futures:
            future.result()
        for each in fresh:
            self._newest.setdefault(each.group, {})[each.partition] = each

    def _checkpoint(self, group: str, tp: TopicPartition, position: CommittedOffset) -> Checkpoint | None:
        downstream = self._translate(tp, position.offset)
        if downstream is None:
            return None
        target = self._remote(tp)
        found = Checkpoint(group, target, position.offset, downstream, position.metadata)
        return found if is_news(found, self._newest.get(group, {}).get(target)) else None

    def _translate(self, tp: TopicPartition, offset: int) -> int | None:
        """Return an offset of the target; None where it is not known, or is of a log that is gone."""
        found = self._progress.translate(tp, offset)
        return found if found is not None and self._logs.has(self._remote(tp), found) else None

    def _remote(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self._naming.remote(tp.topic), tp.partition)

    def _say_refused(self, group: str, error: Exception) -> None:
        what = f"the positions of group {group} are not translated"
        self._refusals.say(what, error, "Describe on the group in the source")

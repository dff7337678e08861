"""Find how far a mirror is with each partition and each group, by asking both clusters.

A warning names each partition without a leader, and each group that a cluster refuses to describe. The rest is shown.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kafkalog.client.admin import Admin
from kafkalog.client.types import READ_COMMITTED, TopicPartition
from kafkalog.mirror.claims.returning import is_into_itself
from kafkalog.mirror.housekeeping.refusals import ask_each, offsets_of
from kafkalog.mirror.internal_topics.stored import read_checkpoints, read_marks, read_positions, returning_topics
from kafkalog.mirror.log_ends import log_ends
from kafkalog.mirror.settings import MirrorSettings

logger = logging.getLogger(__name__)


class PartitionStatus(NamedTuple):
    """A partition of the source."""

    partition: TopicPartition
    next_offset: int | None
    """The next offset to mirror; None where nothing was mirrored."""
    end: int | None
    """The source's last stable offset; None where its leader does not answer."""

    @property
    def lag(self) -> int | None:
        return None if self.next_offset is None or self.end is None else max(self.end - self.next_offset, 0)


class GroupStatus(NamedTuple):
    """A group's position in a partition of the source, and what its newest checkpoint says."""

    group: str
    partition: TopicPartition
    """The partition of the target."""
    offset: int | None
    """The offset that the group has committed in the source now; None where it has none."""
    upstream: int
    """The offset that it had committed when the checkpoint was made."""
    downstream: int
    """The checkpoint's offset in the target."""
    in_target: int | None
    """The offset that the group has committed in the target; None where it has none."""
    mark: int | None
    """The offset of the target up to which its position is known in the source; None where no mirror has noted it."""

    @property
    def ahead(self) -> int | None:
        """The number of offsets of the target that the group has read beyond what was brought back."""
        return None if self.in_target is None or self.mark is None else max(self.in_target - self.mark, 0)

    @property
    def lag(self) -> int | None:
        """The lag of the checkpoint behind the group, in offsets of the source."""
        return None if self.offset is None else self.offset - self.upstream


def partition_status(settings: MirrorSettings, source: Admin, target: Admin) -> list[PartitionStatus]:
    """Find how far each partition is that the mirror takes.

    Raises:
        KafkaError, ClientError: A cluster cannot be asked.
    """
    wanted = settings.mirrored(returning_topics(settings), into_itself=is_into_itself(source, target))
    topics = source.cluster.metadata(refresh=True).topics
    chosen = sorted(wanted.select(topics))
    partitions = [TopicPartition(name, number) for name in chosen for number in sorted(topics[name].partitions)]
    if settings.keeps_offsets:
        positions = _kept(settings, target, partitions)
    else:
        positions = read_positions(settings)
    ends = log_ends(source.cluster, "source", partitions, READ_COMMITTED)
    return [PartitionStatus(tp, positions.get(tp), ends.get(tp)) for tp in partitions]


def _kept(settings: MirrorSettings, target: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return where the partitions of the target end, which are the next offsets to mirror."""
    remote = {TopicPartition(settings.naming.remote(tp.topic), tp.partition): tp for tp in partitions}
    there = target.cluster.metadata({tp.topic for tp in remote}, refresh=True).topics
    known = [tp for tp in remote if tp.partition in there[tp.topic].partitions]
    return {remote[tp]: end for tp, end in log_ends(target.cluster, "target", known).items()}


def group_status(settings: MirrorSettings, source: Admin, target: Admin) -> list[GroupStatus]:
    """Find how far each group's positions are translated.

    Raises:
        KafkaError, ClientError: A cluster cannot be asked.
    """
    ids = {name: topic.topic_id for name, topic in target.cluster.metadata(refresh=True).topics.items()}
    checkpoints, marks = read_checkpoints(settings, ids), read_marks(settings, ids)
    there = ask_each(checkpoints, offsets_of(source), _refused)
    here = ask_each(checkpoints, offsets_of(target), _refused)
    names = {settings.naming.remote(tp.topic): tp.topic for offsets in there.values() for tp in offsets}
    found = []
    for group, each in sorted(checkpoints.items()):
        for tp, checkpoint in sorted(each.items()):
            upstream = there.get(group, {}).get(TopicPartition(names.get(tp.topic, ""), tp.partition))
            downstream = here.get(group, {}).get(tp)
            found.append(
                GroupStatus(
                    group,
                    tp,
                    None if upstream is None else upstream.offset,
                    checkpoint.upstream,
                    checkpoint.downstream,
                    None if downstream is None else downstream.offset,
                    marks.get((group, tp)),
                )
            )
    return found


def _refused(group: str, error: Exception) -> None:
    logger.warning("the positions of group %s are not known: %s", group, error)

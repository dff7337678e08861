"""Translate the positions of consumer groups, and bring them into the target: MM2's checkpoints (KIP-382, KIP-545).

A checkpoint says: the group is at this offset of a topic in the source, which is that offset in the target. The topic
`SOURCE.checkpoints.internal` holds the newest one of each group and partition, for `RemoteClusterUtils` of Kafka's
`connect-mirror-client`. With `sync.group.offsets.enabled` they are also committed for groups of the target that have no
members. Each process does this for the partitions that it mirrors. Source: `MirrorCheckpointTask`, `CheckpointStore`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import DEAD, EMPTY, CommittedOffset, is_of_consumers
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.internal_topics.formats import Checkpoint
from kafkalog.mirror.internal_topics.stored import read_checkpoints
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import KafkaError, UnknownMemberIdError

logger = logging.getLogger(__name__)


def is_news(new: Checkpoint, last: Checkpoint | None) -> bool:
    """Tell whether a checkpoint says more than the last one of its group and partition.

    A group only goes back in the target where it has gone back in the source.
    """
    return last is None or new.upstream < last.upstream or new.downstream > last.downstream


def to_commit(
    checkpoints: Mapping[TopicPartition, Checkpoint], committed: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, int]:
    """Return what to commit for a group of the target without members: it only goes forward."""
    return {
        tp: each.downstream
        for tp, each in checkpoints.items()
        if tp not in committed or committed[tp].offset < each.downstream
    }


class Checkpoints:
    """The checkpoints of the partitions that `progress` has; for one thread."""

    def __init__(
        self, settings: MirrorSettings, progress: Progress, source: Admin, target: Admin, producer: Producer
    ) -> None:
        self._settings, self._progress = settings, progress
        self._source, self._target = source, target
        self._producer = producer
        self._naming = settings.naming
        self._groups, self._synchronized = settings.group_filter, settings.sync_group_filter
        self._newest: dict[str, dict[TopicPartition, Checkpoint]] | None = None

    def emit(self) -> None:
        """Write a checkpoint of each group and partition that has something new.

        Raises:
            KafkaError, ClientError: A cluster cannot be asked, or does not take the checkpoints.
        """
        mine = self._progress.partitions()
        if not mine:
            # Others write checkpoints meanwhile: they are read again once there is something to do.
            self._newest = None
            return
        if self._newest is None:
            self._newest = read_checkpoints(self._settings)
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

    def synchronize(self) -> None:
        """Commit the translated positions of groups that have no members in the target.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        mine = {TopicPartition(self._naming.remote(tp.topic), tp.partition) for tp in self._progress.partitions()}
        wanted = {
            group: {tp: each for tp, each in checkpoints.items() if tp in mine}
            for group, checkpoints in (self._newest or {}).items()
            if self._groups.allows(group) and self._synchronized.allows(group)
        }
        wanted = {group: checkpoints for group, checkpoints in wanted.items() if checkpoints}
        described = self._target.groups.describe_groups(wanted)
        idle = [group for group in wanted if described[group].state in (EMPTY, DEAD)]
        committed = self._target.groups.offsets(idle)
        for group in idle:
            if offsets := to_commit(wanted[group], committed[group]):
                self._commit(group, offsets)

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            self._target.groups.alter_offsets(group, offsets)
            logger.info("group %s: committed %d positions in the target", group, len(offsets))
        except UnknownMemberIdError:
            logger.info("group %s has members in the target: its positions are its own", group)
        except KafkaError as error:
            logger.warning("the positions of group %s are not brought into the target: %s", group, error.message)

    def _checkpoint(self, group: str, tp: TopicPartition, position: CommittedOffset) -> Checkpoint | None:
        downstream = self._progress.translate(tp, position.offset)
        if downstream is None:
            return None
        target = TopicPartition(self._naming.remote(tp.topic), tp.partition)
        found = Checkpoint(group, target, position.offset, downstream, position.metadata)
        return found if is_news(found, (self._newest or {}).get(group, {}).get(target)) else None

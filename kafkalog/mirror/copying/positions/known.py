"""Positions in the source that the target has stored, as far as they count for the present topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.positions.created_again import begun_anew, is_unnamed, present_syncs
from kafkalog.mirror.copying.positions.recalled import recalled
from kafkalog.mirror.copying.positions.translation import OffsetMap
from kafkalog.mirror.internal_topics.stored import StoredPosition, read_syncs
from kafkalog.mirror.internal_topics.topic_ids import NO_EPOCH
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.schema import ZERO_UUID


class KnownPositions:
    """The positions of an assignment.

    Args:
        partitions: The assigned ones.
        stored: What the target has stored of these and others.
        ids: The ids of the source's topics.

    Attributes:
        anew: Partitions whose stored position is in a topic that was deleted; another one has its name.
        same: Partitions whose stored position is in the present topic, as its id tells.
        epochs: The leader epochs of the records before the stored positions of `same`, where they are known.
    """

    def __init__(
        self,
        partitions: Collection[TopicPartition] = (),
        stored: Mapping[TopicPartition, StoredPosition] | None = None,
        ids: Mapping[str, UUID] | None = None,
    ) -> None:
        self._stored, self._ids = stored or {}, ids or {}
        self.anew = begun_anew(partitions, self._stored, self._ids)
        # A position without an id may be in another topic, which was deleted: then nothing of the present one came.
        self.same = {
            tp for tp, at in self._stored.items() if at.topic_id == self._ids.get(tp.topic) and at.topic_id != ZERO_UUID
        }
        self.epochs = {
            tp: self._stored[tp].leader_epoch for tp in self.same if self._stored[tp].leader_epoch != NO_EPOCH
        }

    def positions(self) -> dict[TopicPartition, int]:
        """Return the stored positions, those of `anew`, too."""
        return {tp: each.next_offset for tp, each in self._stored.items()}

    def maps(self, settings: MirrorSettings) -> Mapping[TopicPartition, OffsetMap]:
        """Read what is known of the offsets of the present topics.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        return recalled(present_syncs(read_syncs(settings), self._stored, self._ids))

    def is_unnamed(self, tp: TopicPartition) -> bool:
        """Tell whether the topic has an id now, and what was stored of the partition has none."""
        return self._ids.get(tp.topic, ZERO_UUID) != ZERO_UUID and is_unnamed(tp, self._stored)

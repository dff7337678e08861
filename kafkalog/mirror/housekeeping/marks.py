"""Remember which positions of groups in the target the mirror itself has committed, or has brought back to the source.

Without these marks, a position that the mirror committed in the target would look like one that the group has reached
there. The mirror would bring it back to the source, and so undo a reset of the group's offsets there.

A mark is stored before the mirror commits in the target, and after it has committed in the source. A process may die in
between. Then the next one still knows the mirror's own commits in the target, and commits once more in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.internal_topics.formats import GroupMark
from kafkalog.mirror.internal_topics.stored import read_marks
from kafkalog.mirror.internal_topics.topic_ids import id_headers
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.schema import ZERO_UUID


class Marks:
    """The marks of the groups and partitions of the target; for one thread."""

    def __init__(self, settings: MirrorSettings, progress: Progress, producer: Producer) -> None:
        self._settings, self._progress, self._producer = settings, progress, producer
        self._marks: dict[tuple[str, TopicPartition], int] = {}
        self._read_at = -1
        self._ids: Mapping[str, UUID] = {}

    def refresh(self, ids: Mapping[str, UUID]) -> None:
        """Read them again if this process got partitions: others may have written marks of these.

        So it does if topics of the target have other ids: marks of deleted ones do not count.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        assignments = self._progress.assignments
        if assignments != self._read_at or ids != self._ids:
            self._marks = read_marks(self._settings, ids)
            self._read_at, self._ids = assignments, dict(ids)

    def of(self, group: str, partition: TopicPartition) -> int | None:
        """Return the offset up to which a position is not the group's own; None where there is no mark."""
        return self._marks.get((group, partition))

    def store(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store marks, and wait until the target has them.

        Raises:
            KafkaError, ClientError: The target does not take them.
        """
        marks = [GroupMark(group, tp, offset) for tp, offset in offsets.items()]
        topic = self._settings.naming.group_marks
        futures = [
            self._producer.send(topic, each.value(), each.key(), self._id_headers(each.partition.topic), partition=0)
            for each in marks
        ]
        for future in futures:
            future.result()
        self._marks |= {(group, tp): offset for tp, offset in offsets.items()}

    def _id_headers(self, topic: str) -> list[tuple[str, bytes]]:
        return id_headers(self._ids.get(topic, ZERO_UUID))

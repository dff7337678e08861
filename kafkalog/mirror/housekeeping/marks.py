"""Remember which positions of groups in the target are not news: the mirror has put them there, or brought them back.

Without this, a position that the mirror committed in the target would look like one that the group has reached there,
and would undo it when the group's offsets are reset in the source. A mark is stored before the mirror commits in the
target, and after it has committed in the source: so a process that dies between the two takes nothing of the mirror's
for the group's own, and brings back again what it may not have brought back.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.internal_topics.formats import GroupMark
from kafkalog.mirror.internal_topics.stored import read_marks
from kafkalog.mirror.settings import MirrorSettings


class Marks:
    """The marks of the groups and partitions of the target; for one thread."""

    def __init__(self, settings: MirrorSettings, progress: Progress, producer: Producer) -> None:
        self._settings, self._progress, self._producer = settings, progress, producer
        self._marks: dict[tuple[str, TopicPartition], int] = {}
        self._read_at = -1

    def refresh(self) -> None:
        """Read them again if this process got partitions: others may have written marks of these.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        assignments = self._progress.assignments
        if assignments != self._read_at:
            self._marks = read_marks(self._settings)
            self._read_at = assignments

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
        futures = [self._producer.send(topic, each.value(), each.key(), partition=0) for each in marks]
        for future in futures:
            future.result()
        self._marks |= {(group, tp): offset for tp, offset in offsets.items()}

"""Give topics up: delete the positions, or with kept offsets the configurations, by which a mirror claims them."""

from __future__ import annotations

from collections import defaultdict

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import DEAD, EMPTY
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.assignor import task_of
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.stored import read_positions
from kafkalog.mirror.keeping.topics import give_up
from kafkalog.mirror.settings import MirrorSettings


class MirrorRunsError(ClientError):
    """A process of the mirror runs: it would begin with the topics anew at once."""


def release(settings: MirrorSettings, source: Admin, target: Admin) -> list[str]:
    """Give the topics up that `settings` name; return those that were claimed, by their names in the source.

    Raises:
        MirrorRunsError: A process of the mirror runs.
        KafkaError, ClientError: A cluster cannot be asked, or does not take the records.
    """
    state = source.groups.describe_groups([settings.group_id])[settings.group_id].state
    if state not in (EMPTY, DEAD):
        raise MirrorRunsError(f"the mirror from {settings.source} to {settings.target} runs; stop its processes first")
    return give_up(settings, target) if settings.keeps_offsets else _delete_positions(settings)


def _delete_positions(settings: MirrorSettings) -> list[str]:
    wanted = settings.topic_filter
    by_task: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp in read_positions(settings):
        if wanted.allows(tp.topic):
            by_task[task_of(tp, settings.tasks)].append(tp)
    for number, partitions in by_task.items():
        task = MirrorTask(settings, number)
        try:
            task.start()
            task.store(dict.fromkeys(partitions))
        finally:
            task.close()
    return sorted({tp.topic for partitions in by_task.values() for tp in partitions})

"""Make the consumer that reads the source: a member of the mirror's group there."""

from __future__ import annotations

from kafkalog.client.consumer import Consumer
from kafkalog.mirror import clients
from kafkalog.mirror.copying.assignor import task_assignor
from kafkalog.mirror.settings import MirrorSettings

_FIXED = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    # Every position is sought. One that the log does not have may be before its beginning or behind its end, which the
    # worker finds out.
    "auto.offset.reset": "none",
    "exclude.internal.topics": "true",
}


def source_consumer(settings: MirrorSettings) -> Consumer:
    """Return the consumer, without a subscription."""
    return clients.consumer(
        {
            "metadata.max.age.ms": str(settings.refresh_topics * 1000),
            # As Kafka Connect: others go on soon with what a process had that died.
            "session.timeout.ms": "10000",
            **settings.source_client,
            **_FIXED,
            "group.id": settings.group_id,
            "partition.assignment.strategy": task_assignor(settings.tasks),
        }
    )

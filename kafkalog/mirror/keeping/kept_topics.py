"""Store of which topic of the source the target has the offsets, by its id, and compare that.

The new topic that takes the place of a deleted one has other records at the same offsets, and the target's offsets
cannot go back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kafkalog.client.types import TopicPartition
from kafkalog.mirror import clients
from kafkalog.mirror.internal_topics.formats import KeptTopic
from kafkalog.mirror.internal_topics.stored import read_kept
from kafkalog.mirror.internal_topics.topic_ids import are_other_topics
from kafkalog.mirror.keeping.errors import KeepingError
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.schema import ZERO_UUID


def check_topics(settings: MirrorSettings, partitions: Collection[TopicPartition], ids: Mapping[str, UUID]) -> None:
    """Check that the target's records in these partitions of the source are of the topics with these ids.

    Raises:
        KeepingError: They are of a topic that was deleted.
        KafkaError, ClientError: The target cannot be asked.
    """
    kept = read_kept(settings) if partitions else {}
    for tp in partitions:
        if are_other_topics(kept.get(tp), ids.get(tp.topic)):
            remote = settings.naming.remote(tp.topic)
            raise KeepingError(
                f"topic {tp.topic} of the source was deleted and created again, and the target has the records of the "
                f"old one. Delete the topic {remote} in the target to mirror it anew, or leave it out by --exclude"
            )


def remember(settings: MirrorSettings, partitions: Collection[TopicPartition], ids: Mapping[str, UUID]) -> None:
    """Store the ids of the topics to which the target's records will belong.

    Raises:
        KafkaError, ClientError: The target does not take them.
    """
    kept = read_kept(settings) if partitions else {}
    now = {tp: ids.get(tp.topic, ZERO_UUID) for tp in partitions}
    new = [
        KeptTopic(settings.source, tp, topic_id)
        for tp, topic_id in now.items()
        if topic_id not in (ZERO_UUID, kept.get(tp))
    ]
    if not new:
        return
    with clients.plain_producer({**settings.target_client, "acks": "all"}) as producer:
        for future in [producer.send(settings.naming.offsets, each.value(), each.key()) for each in new]:
            future.result()

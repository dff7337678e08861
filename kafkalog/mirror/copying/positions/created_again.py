"""Tell topics of the source from those that were deleted and created again under their names.

A position and the syncs that were stored for one topic count for that topic alone. Where a source has no ids, as Kafka
before 2.8, or a record was stored without one, they count for every topic of the name.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from uuid import UUID

from kafkalog.client.admin import Admin
from kafkalog.client.consumer.fetcher.fetch_collector import FetchedBatches
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.formats import OffsetSync
from kafkalog.mirror.internal_topics.runs import Headers
from kafkalog.mirror.internal_topics.stored import StoredPosition
from kafkalog.mirror.internal_topics.topic_ids import are_other_topics, id_of
from kafkalog.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)


class CreatedAgainError(ClientError):
    """A topic of the source was deleted and created again; the next worker finds out where to begin in it."""

    retriable = True


def topic_ids(source: Admin, topics: Collection[str]) -> dict[str, UUID]:
    """Return the ids of topics, zero where the brokers have none; without topics that cannot be described now."""
    found = source.cluster.metadata(topics, refresh=True).topics if topics else {}
    return {name: topic.topic_id for name, topic in found.items() if not topic.error_code}


def is_of_another(fetched: FetchedBatches, ids: Mapping[str, UUID]) -> bool:
    """Tell whether something was fetched from another topic than the one with the known id."""
    return ids.get(fetched.partition.topic) not in (ZERO_UUID, fetched.topic_id) and fetched.topic_id != ZERO_UUID


def begun_anew(
    partitions: Iterable[TopicPartition], stored: Mapping[TopicPartition, StoredPosition], ids: Mapping[str, UUID]
) -> frozenset[TopicPartition]:
    """Return the partitions whose stored position is in a topic that is gone; log them, a line for each topic."""
    anew: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        if tp in stored and are_other_topics(stored[tp].topic_id, ids.get(tp.topic)):
            anew[tp.topic].append(tp.partition)
    for topic, numbers in anew.items():
        logger.warning(
            "topic %s was deleted and created again in the source: mirroring the new one from its beginning, behind "
            "the records of the old one (partitions %s)",
            topic,
            ", ".join(map(str, sorted(numbers))),
        )
    return frozenset(TopicPartition(topic, number) for topic, numbers in anew.items() for number in numbers)


def present_syncs(
    syncs: Iterable[tuple[OffsetSync, Headers]],
    stored: Mapping[TopicPartition, StoredPosition],
    ids: Mapping[str, UUID],
) -> Iterator[tuple[OffsetSync, Headers]]:
    """Yield the syncs that are about the present topics of the source.

    Syncs without an id count as long as the position has none, either: then both are of MirrorMaker 2 or of an older
    mirror.
    """
    for sync, headers in syncs:
        now, there = ids.get(sync.partition.topic, ZERO_UUID), id_of(headers)
        if now in (ZERO_UUID, there) or (there == ZERO_UUID and is_unnamed(sync.partition, stored)):
            yield sync, headers


def is_unnamed(partition: TopicPartition, stored: Mapping[TopicPartition, StoredPosition]) -> bool:
    """Tell whether no position is stored that says of which topic it is."""
    return partition not in stored or stored[partition].topic_id == ZERO_UUID

"""Read what a mirror has stored in its own topics: positions, offset syncs, checkpoints and group marks.

A record that cannot be read is reported and left out. Every function may raise:

- `ClientTimeoutError`: The topic was not read within `TIMEOUT_S`, perhaps because a transaction does not end.
- `KafkaError`: The cluster refuses the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.compacted import read_topic
from kafkalog.mirror.internal_topics.formats import (
    Checkpoint,
    FormatError,
    GroupMark,
    KeptTopic,
    OffsetSync,
    SourcePosition,
)
from kafkalog.mirror.internal_topics.runs import Headers
from kafkalog.mirror.internal_topics.topic_ids import NO_EPOCH, are_other_topics, epoch_of, id_of
from kafkalog.mirror.settings import MirrorSettings

logger = logging.getLogger(__name__)
T = TypeVar("T")

TIMEOUT_S = 240.0
"""The time to wait for the end of the transactions of processes that died.

It is `transaction.timeout.ms` of a mirror that commits every minute, and some more.
"""


class StoredPosition(NamedTuple):
    """The position up to which a partition of the source was mirrored."""

    next_offset: int
    topic_id: UUID
    """The id of the topic in which the position is; zero where MirrorMaker 2 or an older mirror has stored it."""
    leader_epoch: int = NO_EPOCH
    """The leader epoch of the last record before the position; -1 where it is unknown."""


def read_stored(settings: MirrorSettings) -> dict[TopicPartition, StoredPosition]:
    """Read from the target the position in each partition of the source."""
    return _positions(settings.target_client, settings.naming.offsets, settings.source)


def read_positions(settings: MirrorSettings) -> dict[TopicPartition, int]:
    """Read from the target the next offset of each partition of the source."""
    return {tp: each.next_offset for tp, each in read_stored(settings).items()}


def read_kept(settings: MirrorSettings) -> dict[TopicPartition, UUID]:
    """Read from the target of which topic of the source it has the offsets, by the source's partitions."""
    found = _records(settings.target_client, settings.naming.offsets, KeptTopic.read)
    return {each.partition: each.topic_id for each in found if each is not None and each.cluster == settings.source}


def read_syncs(settings: MirrorSettings) -> Iterator[tuple[OffsetSync, Headers]]:
    """Read from the target the pairs of offsets that this mirror has stored, in their order, with their headers."""
    return _with_headers(settings.target_client, settings.naming.offset_syncs, OffsetSync.read)


def mirrored_topics(settings: MirrorSettings, *, reverse: bool = False) -> set[str]:
    """Return the topics of which records were mirrored; with `reverse` those of the mirror of the other direction."""
    if reverse:
        client, topic = settings.source_client, settings.naming.reverse_offset_syncs
    else:
        client, topic = settings.target_client, settings.naming.offset_syncs
    return {each.partition.topic for each in _records(client, topic, OffsetSync.read)}


def read_checkpoints(
    settings: MirrorSettings, ids: Mapping[str, UUID] | None = None
) -> dict[str, dict[TopicPartition, Checkpoint]]:
    """Read from the target the newest checkpoint of each group and of each partition of the target.

    `ids` are those of the target's topics. Checkpoints of others of their names, which were deleted, are left out.
    """
    found: dict[str, dict[TopicPartition, Checkpoint]] = {}
    for each, headers in _with_headers(settings.target_client, settings.naming.checkpoints, Checkpoint.read):
        of_group = found.setdefault(each.group, {})
        if _is_present(each.partition, headers, ids):
            of_group[each.partition] = each
        else:
            of_group.pop(each.partition, None)
    return found


def read_marks(
    settings: MirrorSettings, ids: Mapping[str, UUID] | None = None
) -> dict[tuple[str, TopicPartition], int]:
    """Read from the target the group marks, by group and partition of the target.

    `ids` are those of the target's topics. A mark of another one of the name, which was deleted, is 0: whatever a group
    has reached in the present one is its own.
    """
    marks = _with_headers(settings.target_client, settings.naming.group_marks, GroupMark.read)
    newest = {(each.group, each.partition): (each.downstream, headers) for each, headers in marks}
    return {place: mark if _is_present(place[1], headers, ids) else 0 for place, (mark, headers) in newest.items()}


def _is_present(partition: TopicPartition, headers: Headers, ids: Mapping[str, UUID] | None) -> bool:
    return ids is None or not are_other_topics(id_of(headers), ids.get(partition.topic))


def returning_topics(settings: MirrorSettings) -> set[str]:
    """Return topics of the source that a mirror from the target writes under the names that this mirror would use.

    Only names that stay can return; others tell where they come from.
    """
    naming = settings.naming
    if not naming.keeps_names:
        return set()
    found = {tp.topic for tp in _positions(settings.source_client, naming.reverse_offsets, naming.target)}
    return {topic for topic in found if naming.remote(topic) == topic}


def _positions(client: Mapping[str, str], topic: str, cluster: str) -> dict[TopicPartition, StoredPosition]:
    """Return the positions in the partitions of one cluster; of each partition the newest."""
    found: dict[TopicPartition, StoredPosition] = {}
    for each, headers in _with_headers(client, topic, SourcePosition.read):
        if each is None or each.cluster != cluster:
            continue
        if each.next_offset is None:
            found.pop(each.partition, None)
        else:
            found[each.partition] = StoredPosition(each.next_offset, id_of(headers), epoch_of(headers))
    return found


def _records(client: Mapping[str, str], topic: str, read: Callable[[bytes | None, bytes | None], T]) -> Iterator[T]:
    return (each for each, _ in _with_headers(client, topic, read))


def _with_headers(
    client: Mapping[str, str], topic: str, read: Callable[[bytes | None, bytes | None], T]
) -> Iterator[tuple[T, Headers]]:
    for record in read_topic(client, topic, TIMEOUT_S):
        try:
            yield read(record.key, record.value), record.headers
        except FormatError as error:
            logger.warning("topic %s, offset %d: %s", topic, record.offset, error)

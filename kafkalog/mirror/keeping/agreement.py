"""Check that the target has what the source has, before a process goes on behind it.

The end of the target's log is the position in the source. That is only right if the target holds the records of the
source. So the last record of each partition is compared with the one at the same offset in the source, unless that is
gone from either side.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from uuid import UUID

from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.offsets import EARLIEST, LATEST
from kafkalog.client.types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.keeping.errors import KeepingError
from kafkalog.mirror.keeping.kept_topics import check_topics
from kafkalog.mirror.settings import MirrorSettings

PATIENCE_S = 20.0
"""The time to wait for last records; those that do not come in time are taken for gone."""
_POLL_S = 0.2


def kept_positions(
    settings: MirrorSettings,
    source: Admin,
    target: Admin,
    partitions: Iterable[TopicPartition],
    topic_ids: Mapping[str, UUID],
    leaderless: LeaderlessPartitions,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the next offset of each partition of the source of which the target has records.

    With it comes the newest leader epoch that the source has. If the source loses the records before the offset later,
    in an unclean election, its leader tells so by this epoch (KIP-320).

    `topic_ids` are those of the source's topics. Partitions whose leaders do not answer are left to `leaderless`.

    Raises:
        KeepingError: The target has other records than the source.
        KafkaError, ClientError: A cluster cannot be asked.
    """
    remote = {TopicPartition(settings.naming.remote(tp.topic), tp.partition): tp for tp in partitions}
    ends = leaderless.ask(target.cluster, dict.fromkeys(remote, LATEST), of=remote)
    positions = {remote[name]: end.offset for name, end in ends.items() if end.offset > 0}
    check_topics(settings, positions, topic_ids)
    there = leaderless.ask(source.cluster, dict.fromkeys(positions, LATEST))
    for tp, end in there.items():
        if end.offset < positions[tp]:
            raise KeepingError(
                f"{tp} ends at offset {end.offset} in the source and at {positions[tp]} in the target: the source was "
                "deleted and created again, or has lost records. Delete the topic in the target to mirror it anew"
            )
    names = {tp: name for name, tp in remote.items()}
    last = {tp: positions[tp] - 1 for tp in there}
    starts = leaderless.ask(target.cluster, {names[tp]: EARLIEST for tp in last}, of=remote)
    ours = _records_at(settings.target_client, target, {names[tp]: end for tp, end in last.items()}, starts)
    starts = leaderless.ask(source.cluster, dict.fromkeys(last, EARLIEST))
    theirs = _records_at(settings.source_client, source, last, starts)
    for tp, record in theirs.items():
        other = ours.get(names[tp])
        if other is not None and _content(other) != _content(record):
            raise KeepingError(
                f"{tp} has another record at offset {record.offset} in the target than in the source: the source was "
                "deleted and created again, or others write to the target, too. Delete the topic in the target to "
                "mirror it anew"
            )
    return {
        tp: OffsetAndMetadata(position, there[tp].leader_epoch)
        for tp, position in positions.items()
        if tp not in leaderless.partitions
    }


def _content(record: ConsumerRecord) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


def _records_at(
    client: Mapping[str, str],
    admin: Admin,
    wanted: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, OffsetAndTimestamp],
) -> dict[TopicPartition, ConsumerRecord]:
    """Read the records at these offsets of logs that begin at `starts`; leave out those that are gone."""
    left = {tp: offset for tp, offset in wanted.items() if tp in starts and starts[tp].offset <= offset}
    found: dict[TopicPartition, ConsumerRecord] = {}
    if not left:
        return found
    # What is read beyond the record is of no use.
    config = ClientConfig.from_dict({**client, "max.partition.fetch.bytes": "1024"})
    deadline = time.monotonic() + PATIENCE_S
    with SimpleConsumer(config, cluster=admin.cluster) as consumer:
        consumer.assign(left)
        for tp, offset in left.items():
            consumer.seek(tp, offset)
        while left and time.monotonic() < deadline:
            for record in consumer.poll(_POLL_S):
                tp = TopicPartition(record.topic, record.partition)
                if record.offset == wanted[tp]:
                    found[tp] = record
            left = {tp: offset for tp, offset in left.items() if consumer.position(tp) <= offset}
            consumer.assign(left)
    return found

"""Partitions of the source that have lost their last records, as in an unclean election.

The position in such a partition is beyond the end of the log, or the log has other records before it. A mirror that
began at the start of the log would write every record that is left a second time. So it goes on where the source still
agrees with what was mirrored: at the end of the position's leader epoch if that is known (KIP-320), otherwise at the
end of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from kafkalog.client.admin import Admin
from kafkalog.client.offsets import EARLIEST, LATEST, list_offsets_each
from kafkalog.client.types import READ_UNCOMMITTED, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkalog.mirror.log_ends import log_ends

logger = logging.getLogger(__name__)

_ANSWER_S = 2.0
"""The time for which the leader of one partition is asked: the worker mirrors nothing meanwhile."""


def ends_before(source: Admin, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the ends of the partitions that end before the position in them; log them, a line for each.

    Partitions without a leader are not asked about, and begin at the position.
    """
    topics = source.cluster.metadata({tp.topic for tp in positions}).topics if positions else {}
    led = [tp for tp in positions if (at := topics[tp.topic].partitions.get(tp.partition)) and at.leader >= 0]
    # The first fetch tells whether the others have lost records.
    ends = log_ends(source.cluster, "source", led)
    found = {tp: end for tp, end in ends.items() if end < positions[tp]}
    for tp, last in sorted(found.items()):
        say_lost(tp, positions[tp], last)
    return found


def end_before(source: Admin, tp: TopicPartition, position: int) -> OffsetAndMetadata | None:
    """Return where to go on in a partition that does not have the position; None if the log begins behind it.

    That is the end, or the position itself if the log has grown beyond it meanwhile.

    Raises:
        ClientError, KafkaError: The leader cannot be asked, or does not answer at once.
    """
    deadline = time.monotonic() + _ANSWER_S
    if _offset(source, tp, EARLIEST, deadline).offset > position:
        return None
    end = _offset(source, tp, LATEST, deadline)
    return OffsetAndMetadata(end.offset, end.leader_epoch) if end.offset < position else OffsetAndMetadata(position)


def _offset(source: Admin, tp: TopicPartition, timestamp: int, deadline: float) -> OffsetAndTimestamp:
    found = list_offsets_each(source.cluster, {tp: timestamp}, READ_UNCOMMITTED, deadline)[tp]
    if isinstance(found, Exception):
        raise found
    return found


def say_lost(tp: TopicPartition, position: int, end: int) -> None:
    """Log that a partition has lost the records from `end` on."""
    logger.warning(
        "%s has lost the records from offset %d on in the source and was mirrored up to offset %d: the target keeps "
        "them, and what the source has from offset %d on is mirrored behind them",
        tp,
        end,
        position,
        end,
    )

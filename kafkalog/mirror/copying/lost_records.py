"""Partitions of the source that have lost their last records, as in an unclean election.

The position in such a partition is beyond its end. A fetch there is out of range, and would begin at the start of the
log: every record that is left would come a second time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from kafkalog.client.admin import Admin
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition

logger = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""The time to wait for the ends of partitions. One that moves meanwhile must not hold the others up for long."""


def ends_before(source: Admin, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the ends of the partitions that end before the position in them; log them, a line for each.

    Partitions without a leader are not asked about, and begin at the position.
    """
    topics = source.cluster.metadata({tp.topic for tp in positions}).topics if positions else {}
    led = [tp for tp in positions if (at := topics[tp.topic].partitions.get(tp.partition)) and at.leader >= 0]
    try:
        ends = list_offsets(source.cluster, dict.fromkeys(led, LATEST), deadline=time.monotonic() + PATIENCE_S)
    except ClientTimeoutError as error:
        logger.warning(
            "the ends of partitions in the source are not known: one that has lost records is mirrored from its start "
            "again: %s",
            error,
        )
        return {}
    found = {tp: each.offset for tp, each in ends.items() if each.offset < positions[tp]}
    for tp, end in sorted(found.items()):
        logger.warning(
            "%s ends at offset %d in the source and was mirrored up to offset %d: the source has lost records, which "
            "the target keeps. What the source gets from offset %d on is mirrored behind them",
            tp,
            end,
            positions[tp],
            end,
        )
    return found

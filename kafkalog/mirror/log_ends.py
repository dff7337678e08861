"""Find where partitions end, as far as their leaders answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import is_retriable
from kafkalog.client.offsets import LATEST, list_offsets_each
from kafkalog.client.types import READ_UNCOMMITTED, TopicPartition

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time for which leaders are asked. One that moves meanwhile must not hold the other partitions up for long."""


def log_ends(
    cluster: Cluster, side: str, partitions: Iterable[TopicPartition], isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Return where partitions end; those whose leaders do not answer are named in the log, and left out.

    Args:
        cluster: The source or the target.
        side: Which of them it is, for the log.
        partitions: The partitions.
        isolation_level: With READ_COMMITTED the end is the last stable offset.

    Raises:
        KafkaError, ClientError: A partition has an error that does not pass.
    """
    deadline = time.monotonic() + PATIENCE_S
    ends: dict[TopicPartition, int] = {}
    for tp, answer in list_offsets_each(cluster, dict.fromkeys(partitions, LATEST), isolation_level, deadline).items():
        if isinstance(answer, Exception):
            if not is_retriable(answer):
                raise answer
            logger.warning("the end of %s in the %s is not known: %s", tp, side, answer)
        else:
            ends[tp] = answer.offset
    return ends

"""Hold partitions at batches of the source that cannot be read.

A checksum may be wrong because a disk is damaged. The same batch may be whole at the next leader, or after a repair.
"""

from __future__ import annotations

import logging

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.held import HeldPartitions

logger = logging.getLogger(__name__)


class DamagedPartitions(HeldPartitions):
    """The partitions that are held at a batch that cannot be read."""

    def note(self, tp: TopicPartition, offset: int, error: Exception, now: float) -> None:
        """Hold a partition, because the batch at `offset` cannot be read; name it in the log."""
        pause = self.hold(tp, offset, now)
        logger.warning(
            "%s is held at offset %d of the source, and tried again in %.0f s: %s. Others are mirrored. If no replica "
            "has the batch whole, delete the records before the next one (kafkalog delete-records)",
            tp,
            offset,
            pause,
            error,
        )

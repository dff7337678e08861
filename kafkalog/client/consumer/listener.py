"""What an application may do when partitions come and go."""

from __future__ import annotations

from collections.abc import Collection

from kafkalog.client.types import TopicPartition


class RebalanceListener:
    """Told of rebalances, in the thread that calls `Consumer.poll` (or ``unsubscribe``, or ``close``).

    An exception ends the rebalance's other steps no less, and is raised from that call. `Consumer.commit` is allowed.
    """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These have been added (KIP-429: without those that were kept). Called once a rebalance, perhaps with none."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These are about to be given up; what was read of them can still be committed."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """These belong to others already: the member has left the group without knowing. A commit would fail."""
        self.on_partitions_revoked(partitions)

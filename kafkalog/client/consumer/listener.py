"""What an application may do when partitions come and go."""

from __future__ import annotations

from collections.abc import Collection

from kafkalog.client.types import TopicPartition


class RebalanceListener:
    """Base class of listeners that `Consumer.subscribe` takes; override what you need.

    The consumer calls a listener in the thread that calls `Consumer.poll`, ``unsubscribe`` or ``close``. A listener may
    call the consumer's methods, `Consumer.commit` among them.

    An exception that a listener raises does not stop the rebalance. Partitions are taken or given up all the same, and
    the steps that remain are done in the same call or in the next calls of ``poll``. The exception is then raised from
    the call in which the consumer called the listener; where several steps of that call fail, it is the first one's.
    """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Note partitions that were added.

        Called once in each rebalance, perhaps with no partitions. Partitions that the consumer kept are not among them
        (KIP-429).
        """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions that are about to be given up; what was read of them can still be committed."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that belong to other members already; a commit of them would fail.

        The group went on without this member, which did not know. Does what `on_partitions_revoked` does unless it is
        overridden.
        """
        self.on_partitions_revoked(partitions)

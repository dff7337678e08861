"""Callbacks for an application whose partitions change in a rebalance."""

from __future__ import annotations

from collections.abc import Collection

from kafkalog.client.types import TopicPartition


class RebalanceListener:
    """Base class of listeners that `Consumer.subscribe` takes; override what you need.

    The consumer calls a listener in the thread that calls `Consumer.poll`, `unsubscribe` or `close`. A listener may
    call the consumer's methods, `Consumer.commit` among them.

    An exception that a listener raises does not stop the rebalance. The consumer takes the new partitions, or gives the
    old ones up, all the same. It does the remaining steps of the rebalance in the same call or in the next calls of
    `poll`. Then it raises the exception from the call in which it called the listener. Where the listener raises in
    several steps of one call, the consumer raises the first exception.
    """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Handle partitions that were added.

        Called once in each rebalance, perhaps with no partitions. Partitions that the consumer kept are not included
        (KIP-429).
        """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Handle partitions that the consumer will give up; their offsets can still be committed."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Handle partitions that already belong to other members; a commit of their offsets would fail.

        The group has gone on without this member, which did not know. Calls `on_partitions_revoked` unless it is
        overridden.
        """
        self.on_partitions_revoked(partitions)

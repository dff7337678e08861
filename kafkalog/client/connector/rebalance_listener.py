"""The listener that tells an application about the rebalances of a connector."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from kafkalog.client.types import TopicPartition


class ConnectorRebalanceListener(Protocol):
    """A listener of a connector's rebalances (Kafka 0.9: `ConsumerRebalanceListener` of `ConsumerConnector`)."""

    def before_releasing_partitions(self, partitions: Set[TopicPartition]) -> None:
        """Finish with partitions that other members may read next, on a thread of the connector.

        The streams return nothing more of them. What a stream's `consumed` notes now is committed before the release if
        `auto.commit.enable` is set, and `commit_offsets` commits it otherwise. It is not called for partitions that are
        lost with the session, or at the shutdown. The rebalance goes on after an error, which is logged.
        """

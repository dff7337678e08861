"""Ask all brokers of a cluster for what they coordinate: their groups, or their transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.retry import Retry

T = TypeVar("T")


def ask_every_broker(cluster: Cluster, retry: Retry, ask: Callable[[int], T]) -> list[T]:
    """Ask the live brokers one after another; after an error that may pass, ask all of them again.

    When a broker dies, others take over what it coordinated. They may have answered before, so that their answers
    are out of date.

    Args:
        cluster: The cluster.
        retry: Says when to try again, and until when.
        ask: Asks the broker of this id.

    Returns:
        The answers of one round.

    Raises:
        ClientTimeoutError: Not all brokers have answered in time.
        Exception: An error that another try does not mend.
    """

    def round_trip() -> list[T]:
        brokers = cluster.metadata([], refresh=True, deadline=retry.deadline).brokers
        return [ask(node_id) for node_id in sorted(brokers)]

    return retry.run(round_trip)

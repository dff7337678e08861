"""Ask all brokers of a cluster for what they have: their groups, transactions or log directories."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import is_retriable
from kafkalog.client.network.at_once import ask_at_once
from kafkalog.client.outcomes import values_of
from kafkalog.client.retry import Retry

T = TypeVar("T")


def ask_every_broker(cluster: Cluster, retry: Retry, ask: Callable[[int], T]) -> list[T]:
    """Ask the live brokers at once; after an error that may pass, ask all of them again.

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
        answers = ask_at_once(_live(cluster, retry), ask)
        lasting = [each for each in answers.values() if isinstance(each, Exception) and not is_retriable(each)]
        if lasting:
            raise lasting[0]
        return list(values_of(answers).values())

    return retry.run(round_trip)


def ask_each_broker(
    cluster: Cluster, retry: Retry, ask: Callable[[int], T], brokers: Collection[int] | None = None
) -> dict[int, T | Exception]:
    """Ask the live brokers at once; after errors that may pass, ask those again that had one.

    If one of them has left the cluster by then, all are asked again, as by `ask_every_broker`.

    Args:
        cluster: The cluster.
        retry: Says when to try again, and until when.
        ask: Asks the broker of this id.
        brokers: The brokers to ask, whether they are alive or not; None for the live ones.

    Returns:
        The answer of each broker, or its error. That is ClientTimeoutError where it has not answered in time.

    Raises:
        ClientTimeoutError: No broker has answered.
    """
    found: dict[int, T | Exception] = {}
    live = _live(cluster, retry)
    left = live if brokers is None else list(brokers)
    while left:
        answers = ask_at_once(left, ask)
        again = {node: each for node, each in answers.items() if isinstance(each, Exception) and is_retriable(each)}
        found |= {node: each for node, each in answers.items() if node not in again}
        ended = retry.after_each(again) if again else {}
        found |= ended
        left = [node for node in again if node not in ended]
        if left:
            live = _live(cluster, retry)
            if brokers is None and not set(left) <= set(live):
                found, left = {}, live
    return dict(sorted(found.items()))


def _live(cluster: Cluster, retry: Retry) -> list[int]:
    return sorted(cluster.metadata([], refresh=True, deadline=retry.deadline).brokers)

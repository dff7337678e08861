"""Ask the leaders of partitions until each partition has an outcome: a value, or the error that it ends with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError, is_retriable
from kafkalog.client.retry import Retry
from kafkalog.client.types import TopicPartition

K = TypeVar("K")
T = TypeVar("T")


def ask_until_final(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    ask: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, T | Exception]],
    retry: Retry,
) -> Iterator[dict[TopicPartition, T | Exception]]:
    """Yield the final outcomes that each try brings; every partition is in one of them.

    A value is final, and so is an error that is not retriable. Partitions with a retriable error are asked about again
    with new metadata, after the pauses of `retry`. Their outcome is that error when it is not tried again, and
    ClientTimeoutError at the deadline.

    Args:
        cluster: The connections to the leaders.
        partitions: The partitions to ask about.
        ask: Asks each leader once about the partitions that are left; returns a value or an error for each of these.
        retry: The pauses and the deadline.
    """
    left = list(partitions)
    while left:
        answers = ask(left)
        again = {tp: each for tp, each in answers.items() if isinstance(each, Exception) and is_retriable(each)}
        final = {tp: each for tp, each in answers.items() if tp not in again}
        if final:
            yield final
        if again:
            ended = retry.after_each(again)
            if ended:
                yield dict(ended)
            cluster.forget({tp.topic for tp in again})
            again = {tp: each for tp, each in again.items() if tp not in ended}
        left = list(again)


def values_of(outcomes: Mapping[K, T | Exception]) -> dict[K, T]:
    """Return the values, if there is no error.

    Raises:
        Exception: An outcome is an error. One of an answer has precedence over ClientTimeoutError.
    """
    errors = [each for each in outcomes.values() if isinstance(each, Exception)]
    if errors:
        # What cannot be done at all says more than what may be done later.
        raise min(errors, key=lambda each: isinstance(each, ClientTimeoutError))
    return {key: each for key, each in outcomes.items() if not isinstance(each, Exception)}


def some_of(outcomes: Mapping[K, T | Exception]) -> tuple[dict[K, T], dict[K, Exception]]:
    """Return the values and the errors, if there is a value or nothing at all.

    Raises:
        Exception: All outcomes are errors; see `values_of`.
    """
    errors = {key: each for key, each in outcomes.items() if isinstance(each, Exception)}
    found = {key: each for key, each in outcomes.items() if key not in errors}
    return values_of(found or outcomes), errors

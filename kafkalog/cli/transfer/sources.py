"""Sources of records for `kafkalog consume`: a topic's partitions, or a consumer group's assignments."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kafkalog.cli.shared.client_options import complain
from kafkalog.cli.shared.interruptible import InterruptedCommand

if TYPE_CHECKING:
    from kafkalog.client.cluster import Cluster
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.consumer import Consumer, ConsumerConfig
    from kafkalog.client.fetch.simple_consumer import SimpleConsumer
    from kafkalog.client.types import ConsumerRecord, TopicPartition


class Source(Protocol):
    """A source of records."""

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        """Return at most N records; wait up to `timeout` seconds for the first."""

    def printed(self) -> None:
        """Note that everything returned by `poll` was printed, even if that was nothing; called after every poll."""


class Member:
    """Reads as a member of a group, and commits its positions if automatic commits are on.

    It also commits positions in partitions without records: a group that began at their ends begins there again. A
    signal may end a poll when the consumer has counted records that it has not returned; so positions are recorded
    between polls.
    """

    def __init__(self, consumer: Consumer, interval: float | None) -> None:
        self._consumer = consumer
        self._interval = interval
        self._commit_at = time.monotonic() + (interval or 0.0)
        self._polled: list[ConsumerRecord] = []
        self._positions: dict[tuple[str, int], int] = {}

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        self._polled = []
        self._polled = self._consumer.poll(timeout, limit)
        return self._polled

    def printed(self) -> None:
        self._positions |= {(record.topic, record.partition): record.offset + 1 for record in self._polled}
        due = self._interval is not None and time.monotonic() >= self._commit_at
        assigned = self._consumer.assignment()
        self._take_down(assigned if due or not self._polled else assigned - self._positions.keys())
        if due and self._positions:
            self._commit_at = time.monotonic() + (self._interval or 0.0)
            self._consumer.commit_async(self._offsets())

    def _take_down(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the consumer's positions in these partitions, except positions that are not known yet."""
        from kafkalog.client.errors import ClientTimeoutError

        for tp in partitions:
            with suppress(ClientTimeoutError):
                self._positions[tp] = self._consumer.position(tp, 0.0)

    def end(self) -> None:
        """Commit the positions."""
        offsets = self._offsets()
        if self._interval is not None and offsets:
            self._consumer.commit(offsets)
        # Clear it afterwards only: a signal during the commit means that it must be made again.
        self._positions.clear()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions, which other members own from now on."""
        for tp in partitions:
            self._positions.pop(tp, None)

    def _offsets(self) -> dict[TopicPartition, int]:
        from kafkalog.client.types import TopicPartition

        return {TopicPartition(*tp): offset for tp, offset in self._positions.items()}


@contextmanager
def member(config: ConsumerConfig, arguments: argparse.Namespace) -> Iterator[Source]:
    from kafkalog.client.consumer import Blacklist, Consumer, RebalanceListener, Whitelist
    from kafkalog.client.errors import ClientError
    from kafkalog.protocol.errors import KafkaError

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            try:
                group.end()
            except (ClientError, KafkaError) as error:
                complain(error)
                group.forget(partitions)

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
            group.forget(partitions)

    interval = config.auto_commit_interval if config.enable_auto_commit else None
    # The consumer itself would commit all records that it has returned, printed or not.
    with Consumer(replace(config, enable_auto_commit=False)) as consumer:
        group = Member(consumer, interval)
        if arguments.include is not None:
            consumer.subscribe(pattern=Whitelist(arguments.include), listener=Listener())
        elif arguments.blacklist is not None:
            consumer.subscribe(pattern=Blacklist(arguments.blacklist), listener=Listener())
        else:
            consumer.subscribe([arguments.topic], listener=Listener())
        try:
            yield group
            group.end()
        except InterruptedCommand:
            # No signal interrupts between printing and counting.
            group.end()
            raise


class Reader:
    """Reads a topic's partitions, including those that are added later."""

    def __init__(self, cluster: Cluster, consumer: SimpleConsumer, arguments: argparse.Namespace) -> None:
        self._cluster, self._consumer, self._arguments = cluster, consumer, arguments
        self._max_age = cluster.config.metadata_max_age
        self._look_again = time.monotonic() + self._max_age

    def poll(self, timeout: float, limit: int) -> list[ConsumerRecord]:
        from kafkalog.client.errors import ClientTimeoutError

        if time.monotonic() >= self._look_again and self._arguments.partition is None:
            # During an outage the known partitions stay. Fetches wait for its end, too.
            with suppress(ClientTimeoutError):
                self._consumer.assign(_partitions(self._cluster, self._arguments.topic))
            self._look_again = time.monotonic() + self._max_age
        return self._consumer.poll(timeout, limit)

    def printed(self) -> None:
        """Do nothing: there is no group to commit to."""


@contextmanager
def reader(config: ClientConfig, arguments: argparse.Namespace, offset: int | str | None) -> Iterator[Source]:
    from kafkalog.client.cluster import Cluster
    from kafkalog.client.fetch.simple_consumer import SimpleConsumer

    with Cluster(config) as cluster, SimpleConsumer(config, cluster=cluster) as consumer:
        _assign(arguments, cluster, consumer, offset)
        yield Reader(cluster, consumer, arguments)


def _assign(
    arguments: argparse.Namespace, cluster: Cluster, consumer: SimpleConsumer, offset: int | str | None
) -> None:
    from kafkalog.protocol.errors import UnknownTopicOrPartitionError

    partitions = _partitions(cluster, arguments.topic)
    if arguments.partition is not None:
        partitions = [tp for tp in partitions if tp.partition == arguments.partition]
        if not partitions:
            raise UnknownTopicOrPartitionError(f"topic {arguments.topic} has no partition {arguments.partition}")
    consumer.assign(partitions)
    for tp in partitions:
        if isinstance(offset, int):
            consumer.seek(tp, offset)
        elif offset == "earliest":
            consumer.seek_to_beginning(tp)
        elif offset == "latest":
            consumer.seek_to_end(tp)
    if offset is None:
        # The ends as they are now, not as they are when the first record comes.
        unknown = consumer.find_positions()
        if unknown and len(unknown) == len(partitions):
            consumer.position(partitions[0])
        for tp, error in unknown.items():
            complain(f"partition {tp} cannot be read at present: {getattr(error, 'message', error)}")


def _partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    from kafkalog.client.types import TopicPartition

    return [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]

"""Transactions: list and describe them, find those that hang, and end them (KIP-664).

A transaction hangs where a partition has it open and no coordinator will end it; an old producer's late batch could
leave one. The partition's last stable offset then stays where it is, and read_committed consumers read no further.
`find_hanging` finds such transactions. `abort_transaction` ends one with a marker that goes straight to the partition's
leader.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from kafkalog.client.admin.connected import Connected
from kafkalog.client.admin.every_broker import ask_each_broker, ask_every_broker
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import ConfigError, about, left_out
from kafkalog.client.metadata import Broker
from kafkalog.client.retry import Retry
from kafkalog.client.transactions.requests import ProducerIdentity, TransactionRequests
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    BrokerNotAvailableError,
    ErrorCode,
    KafkaError,
    TransactionalIdNotFoundError,
    error_for,
)
from kafkalog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from kafkalog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MAX_TIMEOUT_S = 15 * 60
"""transaction.max.timeout.ms of Kafka's brokers. An older transaction is about to be ended by its coordinator, or
hangs."""
_PARTITIONS_AT_ONCE = 500


class TransactionState(StrEnum):
    """The states of a transactional id, as coordinators name them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def parse(cls, name: str) -> TransactionState:
        """Parse the name of a state; UNKNOWN for a name that only newer coordinators use."""
        return next((state for state in cls if state == name), cls.UNKNOWN)


class TransactionListing(NamedTuple):
    """A transactional id in a list; `coordinator` is the id of a broker."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: TransactionState


class TransactionDescription(NamedTuple):
    """A transactional id and its present transaction."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    """The producer's `transaction.timeout.ms`."""
    start_time: int | None
    """In ms; None where no transaction is open."""
    partitions: list[TopicPartition]
    """The partitions in the transaction. While it ends, those that do not have their marker yet."""


class ProducerState(NamedTuple):
    """The state that a partition keeps of a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    """The largest timestamp of its last batch, in ms."""
    coordinator_epoch: int | None
    """The epoch of the coordinator that wrote its last marker; None if it has no marker."""
    start_offset: int | None
    """The first offset of its open transaction; None where none is open."""


class HangingTransaction(NamedTuple):
    """A transaction that is open in a partition, and that no coordinator will end."""

    partition: TopicPartition
    producer: ProducerState


class TransactionsAdmin(Connected):
    """The part of `Admin` that administers transactions; also usable by itself.

    Calls wait up to `default.api.timeout.ms` and then raise ClientTimeoutError.
    """

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        super().__init__(config, cluster=cluster)
        self._coordinators = Coordinators(self.cluster)

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
    ) -> list[TransactionListing]:
        """List the transactional ids of all brokers; only those in `states` or of `producer_ids`, where given.

        `longer_than_ms` leaves out transactions that have not been running for longer (KIP-994, Kafka 3.8).

        Raises:
            UnsupportedVersionError: A broker does not know `longer_than_ms`.
            ConfigError: A coordinator does not know one of the states.
        """
        retry = Retry(self.cluster.config)
        answers = ask_every_broker(self.cluster, retry, self._listing(states, producer_ids, longer_than_ms, retry))
        return sorted(chain.from_iterable(answers))

    def list_transactions_each(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
    ) -> dict[int, list[TransactionListing] | Exception]:
        """List as `list_transactions` does; return for each broker the ids that it coordinates, or its error.

        A broker that does not answer does not keep those of the others from being listed.

        Raises:
            ClientTimeoutError: No broker has answered.
        """
        retry = Retry(self.cluster.config)
        return ask_each_broker(self.cluster, retry, self._listing(states, producer_ids, longer_than_ms, retry))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Describe the present transactions of these ids.

        Raises:
            TransactionalIdNotFoundError: The coordinator does not know an id.
        """
        found = {}
        for transactional_id in transactional_ids:

            def attempt(coordinator: Broker, timeout: float, key: str = transactional_id) -> TransactionDescription:
                return self._describe(coordinator.node_id, timeout, key)

            found[transactional_id] = self._coordinators.run(CoordinatorType.TRANSACTION, transactional_id, attempt)
        return found

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Describe the producers that have written to these partitions.

        The partitions' leaders describe them; with `broker_id`, the replicas of that broker.

        Raises:
            NotLeaderOrFollowerError: The broker `broker_id` has no replica of a partition.
            UnknownTopicOrPartitionError: There is no such partition.
        """
        left = set(partitions)
        retry = Retry(self.cluster.config)
        found: dict[TopicPartition, list[ProducerState]] = {}

        def attempt() -> None:
            by_broker: dict[int, list[TopicPartition]] = defaultdict(list)
            for tp in sorted(left):
                node_id = broker_id
                if node_id is None:
                    node_id = self.cluster.leader_now(tp, retry.deadline).broker.node_id
                by_broker[node_id].append(tp)
            for node_id, tps in by_broker.items():
                for start in range(0, len(tps), _PARTITIONS_AT_ONCE):
                    some = tps[start : start + _PARTITIONS_AT_ONCE]
                    self._describe_producers(node_id, some, found, self._timeout(retry))
                    left.difference_update(found)

        retry.run(attempt, lambda error: self.cluster.forget({tp.topic for tp in left}))
        return dict(sorted(found.items()))

    def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> None:
        """Abort a hanging transaction in one partition by writing a marker, without its coordinator.

        Raises:
            TransactionCoordinatorFencedError: The partition has had a marker of a later coordinator epoch.
            InvalidProducerEpochError: The producer has a later epoch.
        """
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
                    coordinator_epoch=max(coordinator_epoch, 0),
                )
            ]
        )
        retry = Retry(self.cluster.config)

        def attempt() -> None:
            leader = self.cluster.leader_now(partition, retry.deadline).broker.node_id
            answer: WriteTxnMarkersResponse = self.cluster.request_to(leader, request, timeout=self._timeout(retry))
            codes = [each.error_code for m in answer.markers for topic in m.topics for each in topic.partitions]
            if len(codes) != 1:
                raise left_out(f"partition {partition}")
            _raise(codes[0], f"aborting the transaction of producer {producer_id} in {partition}")

        retry.run(attempt, lambda error: self.cluster.forget([partition.topic]))

    def abort_transaction_at(self, partition: TopicPartition, start_offset: int) -> ProducerState:
        """Abort the transaction that begins in a partition at this offset; return its producer.

        Raises:
            LookupError: No open transaction begins there.
        """
        for producer in self.describe_producers([partition])[partition]:
            if producer.start_offset == start_offset:
                epoch = producer.coordinator_epoch or 0
                self.abort_transaction(partition, producer.producer_id, producer.producer_epoch, epoch)
                return producer
        raise LookupError(f"no open transaction of {partition} starts at offset {start_offset}")

    def find_hanging(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker_id: int | None = None,
        max_timeout_ms: int = MAX_TIMEOUT_S * 1000,
        now_ms: int | None = None,
    ) -> list[HangingTransaction]:
        """Find transactions with no record for `max_timeout_ms` that no coordinator knows to be open.

        Searches one topic, one of its partitions, or the replicas of one broker.

        Raises:
            ValueError: Neither a topic nor a broker is given.
            BrokerNotAvailableError: The broker to be searched is not there.
        """
        now = int(time.time() * 1000) if now_ms is None else now_ms
        searched = list(self._searched(topic, partition, broker_id))
        late = [
            HangingTransaction(tp, producer)
            for tp, producers in self.describe_producers(searched, broker_id=broker_id).items()
            for producer in producers
            if producer.start_offset is not None and now - producer.last_timestamp > max_timeout_ms
        ]
        if not late:
            return []
        return hanging(late, self._open_partitions({each.producer.producer_id for each in late}))

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, ProducerIdentity]:
        """Fence the producers of these ids and abort their open transactions; return the ids' new identities."""
        timeout_ms = round(self.cluster.config.request_timeout * 1000)
        return {each: TransactionRequests(self.cluster, each, timeout_ms).init() for each in transactional_ids}

    # Inside

    def _timeout(self, retry: Retry) -> float:
        return min(self.cluster.config.request_timeout, max(retry.left, 0.001))

    def _listing(
        self, states: Iterable[str], producer_ids: Iterable[int], longer_than_ms: int, retry: Retry
    ) -> Callable[[int], list[TransactionListing]]:
        """Return what asks a broker for its transactional ids."""
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
        )
        return lambda node_id: self._list(node_id, request, retry)

    def _list(self, node_id: int, request: ListTransactionsRequest, retry: Retry) -> list[TransactionListing]:
        answer: ListTransactionsResponse = self.cluster.request_to(node_id, request, timeout=self._timeout(retry))
        _raise(answer.error_code, f"listing the transactions of broker {node_id}")
        if answer.unknown_state_filters:
            known = ", ".join(state for state in TransactionState if state is not TransactionState.UNKNOWN)
            raise ConfigError(f"no such states: {', '.join(answer.unknown_state_filters)}; the states are {known}")
        return [
            TransactionListing(
                each.transactional_id, node_id, each.producer_id, TransactionState.parse(each.transaction_state)
            )
            for each in answer.transaction_states
        ]

    def _describe(self, node_id: int, timeout: float, transactional_id: str) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer: DescribeTransactionsResponse = self.cluster.request_to(node_id, request, timeout=timeout)
        if len(answer.transaction_states) != 1:
            raise left_out(f"transactional id {transactional_id}")
        (found,) = answer.transaction_states
        _raise(found.error_code, f"transactional id {transactional_id}")
        return TransactionDescription(
            transactional_id,
            node_id,
            found.producer_id,
            found.producer_epoch,
            TransactionState.parse(found.transaction_state),
            found.transaction_timeout_ms,
            None if found.transaction_start_time_ms < 0 else found.transaction_start_time_ms,
            sorted(TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions),
        )

    def _describe_producers(
        self,
        node_id: int,
        tps: Sequence[TopicPartition],
        found: dict[TopicPartition, list[ProducerState]],
        timeout: float,
    ) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in tps:
            topics[tp.topic].append(tp.partition)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        )
        answer: DescribeProducersResponse = self.cluster.request_to(node_id, request, timeout=timeout)
        failure: KafkaError | None = None
        for topic in answer.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    error = error_for(each.error_code)
                    failure = type(error)(f"{tp} on broker {node_id}: {each.error_message or error.message}")
                else:
                    found[tp] = _producers(each)
        unanswered = [tp for tp in tps if tp not in found]
        if failure is None and unanswered:
            failure = left_out(f"partition {unanswered[0]}")
        if failure is not None:
            raise failure

    def _searched(self, topic: str | None, partition: int | None, broker_id: int | None) -> Iterator[TopicPartition]:
        if topic is None and broker_id is None:
            raise ValueError("a topic or a broker is needed to limit the search")
        if partition is not None:
            if topic is None:
                raise ValueError("a partition needs its topic")
            yield TopicPartition(topic, partition)
            return
        known = self.cluster.metadata(None if topic is None else [topic], refresh=True)
        if broker_id is not None and broker_id not in known.brokers:
            there = ", ".join(map(str, sorted(known.brokers)))
            raise BrokerNotAvailableError(f"broker {broker_id} cannot be asked: the brokers of the cluster are {there}")
        for found in known.topics.values():
            if topic is not None:
                _raise(found.error_code, f"topic {topic}")
            for each in found.partitions.values():
                if broker_id is None or broker_id in each.replicas:
                    yield TopicPartition(found.name, each.partition)

    def _open_partitions(self, producer_ids: set[int]) -> dict[int, set[TopicPartition]]:
        """Return, by producer id, the partitions in which coordinators will still end a transaction."""
        found: dict[int, set[TopicPartition]] = {}
        for listing in self.list_transactions(producer_ids=sorted(producer_ids)):
            try:
                described = self.describe_transactions([listing.transactional_id])[listing.transactional_id]
            except TransactionalIdNotFoundError:
                continue
            found[listing.producer_id] = set(described.partitions)
        return found


def hanging(late: Iterable[HangingTransaction], known: Mapping[int, set[TopicPartition]]) -> list[HangingTransaction]:
    """Select those of the late transactions that the producer's coordinator does not have open there."""
    return sorted(each for each in late if each.partition not in known.get(each.producer.producer_id, ()))


def _producers(found: PartitionResponse) -> list[ProducerState]:
    return [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            None if each.coordinator_epoch < 0 else each.coordinator_epoch,
            None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
        )
        for each in found.active_producers
    ]


def _raise(code: int, what: str) -> None:
    if code != ErrorCode.NONE:
        raise about(code, what)

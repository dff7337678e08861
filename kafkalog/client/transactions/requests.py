"""The requests of a transaction (KIP-98) as plain calls, each retried as long as that may help.

Their order is Kafka's. `init` comes first. Each transaction has `add_partitions` before the first batch goes to a
partition, `add_offsets` and `commit_offsets` for consumed offsets, and `end`. The producer
(`kafkalog.client.producer`) sends the batches themselves. The producer id and epoch are the only state between calls,
and another process may take them over: `end_transaction` ends a transaction that another process wrote.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import ClientError, about
from kafkalog.client.transactions.errors import Operation, transaction_error
from kafkalog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import ConcurrentTransactionsError, ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kafkalog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafkalog.protocol.wire.releases import PRESENT_EPOCH
from kafkalog.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 60_000
"""transaction.timeout.ms of Kafka's producer."""
CONCURRENT_BACKOFF_S = 0.02
"""The pause while the previous transaction is still being completed, which takes a few milliseconds (KAFKA-5482)."""
_ONE_TRANSACTION = 3
"""AddPartitionsToTxn 4 and later are for brokers only."""


class ProducerIdentity(NamedTuple):
    """The identity of a producer: its id and epoch; -1 and -1 before it has one."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionRequests(Closing):
    """Send the requests of one transactional id.

    Safe for use by several threads, but only one at a time may call `init`. Every call waits until `deadline`
    (`time.monotonic`; `default.api.timeout.ms` from now unless given), then raises ClientTimeoutError, and may be
    made again. After FencedError or another FatalTransactionError no call here succeeds. After
    AbortableTransactionError `end` with `commit=False` succeeds.

    Args:
        source: A client's configuration; or a Cluster, which `close` leaves open.
        transactional_id: The transactional id.
        transaction_timeout_ms: When the coordinator aborts a transaction that its producer does not end.
        identity: The producer id and epoch that another process got from `init`.
    """

    def __init__(
        self,
        source: ClientConfig | Cluster,
        transactional_id: str,
        transaction_timeout_ms: int = DEFAULT_TIMEOUT_MS,
        *,
        identity: ProducerIdentity | None = None,
    ) -> None:
        self._own = isinstance(source, ClientConfig)
        self._cluster = Cluster(source) if isinstance(source, ClientConfig) else source
        self._coordinators = Coordinators(self._cluster)
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.identity = identity or ProducerIdentity()

    def close(self) -> None:
        """Close the connections, unless they are the caller's. An open transaction stays open."""
        if self._own:
            self._cluster.close()

    def init(self, *, deadline: float | None = None, min_version: int = 0) -> ProducerIdentity:
        """Get a producer id and epoch. A producer with an older epoch is fenced, and its open transaction aborted.

        Raises:
            FatalTransactionError: The coordinator does not speak `min_version` of InitProducerId; nothing has changed.
        """
        return self._init(ProducerIdentity(), deadline, min_version)

    def raise_epoch(self, *, ended: bool, deadline: float | None = None) -> ProducerIdentity:
        """Get the next epoch of the present producer id, whose transaction has ended (KIP-360).

        Coordinators before Kafka 2.5 do not compare the present epoch with theirs. They are asked only where `ended`
        says that `end` has just succeeded, so that there was no newer producer then.

        Raises:
            FencedError: Another producer has got an epoch meanwhile.
            FatalTransactionError: The coordinator is too old to be asked.
        """
        return self._init(self.identity, deadline, 0 if ended else PRESENT_EPOCH.version)

    def add_partitions(self, partitions: Iterable[TopicPartition], *, deadline: float | None = None) -> None:
        """Add partitions to the transaction, before batches go there; the first call begins it at the coordinator."""
        wanted = set(partitions)
        if wanted:
            self._ask(Operation.ADD_PARTITIONS, lambda node_id, timeout: self._add(node_id, timeout, wanted), deadline)

    def add_partitions_now(self, partitions: Iterable[TopicPartition], *, deadline: float) -> None:
        """Do as `add_partitions` does, but try only once: retriable errors are raised as well, unchanged."""
        kind, key = CoordinatorType.TRANSACTION, self.transactional_id
        try:
            coordinator = self._coordinators.find_now(kind, key, deadline=deadline)
            timeout = min(self._cluster.config.request_timeout, max(deadline - time.monotonic(), 0.001))
            self._add(coordinator.node_id, timeout, set(partitions))
        except (KafkaError, ClientError) as error:
            self._coordinators.notice(kind, key, error)
            if error.retriable or isinstance(error, ClientError):
                raise
            raise transaction_error(Operation.ADD_PARTITIONS, error, key) from error

    def add_offsets(self, group: str, *, deadline: float | None = None) -> None:
        """Add a consumer group to the transaction, before its offsets are committed; this may begin the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group,
        )

        def attempt(node_id: int, timeout: float) -> None:
            answer: AddOffsetsToTxnResponse = self._cluster.request_to(node_id, request, timeout=timeout)
            _raise(answer.error_code, f"group {group}")

        self._ask(Operation.ADD_OFFSETS, attempt, deadline)

    def commit_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: str | ConsumerGroupMetadata,
        *,
        deadline: float | None = None,
    ) -> None:
        """Commit the next offsets to read, after `add_offsets`. They take effect when the transaction commits.

        With a consumer's group metadata (KIP-447), the group's coordinator refuses offsets of a member that was
        replaced.
        """
        if not offsets:
            return
        member = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
        for tp, offset in sorted(offsets.items()):
            given = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            topics[tp.topic].append(
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=given.offset,
                    committed_leader_epoch=given.leader_epoch,
                    committed_metadata=given.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )

        def attempt(node_id: int, timeout: float) -> None:
            answer: TxnOffsetCommitResponse = self._cluster.request_to(node_id, request, timeout=timeout)
            _raise_worst(
                (each.error_code, f"group {member.group_id}, {topic.name}-{each.partition_index}")
                for topic in answer.topics
                for each in topic.partitions
            )

        self._ask(Operation.COMMIT_OFFSETS, attempt, deadline, group=member.group_id)

    def end(self, commit: bool, *, deadline: float | None = None) -> None:
        """Commit or abort the transaction. The outcome is decided when this returns, and visible a moment later.

        A repeated call with the same outcome does nothing.

        Raises:
            FatalTransactionError: No partition and no group were added, or the transaction was ended the other way
                (INVALID_TXN_STATE).
        """
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=commit,
        )

        def attempt(node_id: int, timeout: float) -> None:
            answer: EndTxnResponse = self._cluster.request_to(node_id, request, timeout=timeout)
            _raise(answer.error_code, "commit" if commit else "abort")

        self._ask(Operation.END, attempt, deadline)

    # Inside

    def _add(self, node_id: int, timeout: float, partitions: Iterable[TopicPartition]) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in sorted(partitions):
            topics[tp.topic].append(tp.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        answer: AddPartitionsToTxnResponse = self._cluster.request_to(
            node_id, request, timeout=timeout, max_version=_ONE_TRANSACTION
        )
        _raise_worst(
            (each.partition_error_code, f"{topic.name}-{each.partition_index}")
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        )

    def _init(self, present: ProducerIdentity, deadline: float | None, min_version: int) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
            producer_id=present.producer_id,
            producer_epoch=present.producer_epoch,
        )

        def attempt(node_id: int, timeout: float) -> ProducerIdentity:
            answer: InitProducerIdResponse = self._cluster.request_to(
                node_id, request, timeout=timeout, min_version=min_version
            )
            _raise(answer.error_code, f"transaction.timeout.ms={self.transaction_timeout_ms}")
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)

        self.identity = self._ask(Operation.INIT, attempt, deadline)
        return self.identity

    def _ask(
        self,
        operation: Operation,
        attempt: Callable[[int, float], T],
        deadline: float | None,
        group: str | None = None,
    ) -> T:
        """Run `attempt` at the coordinator of the transactional id, or of `group`, until it succeeds."""
        kind = CoordinatorType.TRANSACTION if group is None else CoordinatorType.GROUP
        key = self.transactional_id if group is None else group
        try:
            return self._coordinators.run(
                kind,
                key,
                lambda coordinator, timeout: attempt(coordinator.node_id, timeout),
                deadline=deadline,
                steady={ConcurrentTransactionsError: CONCURRENT_BACKOFF_S},
            )
        except KafkaError as error:
            raise transaction_error(operation, error, self.transactional_id) from error


def end_transaction(
    source: ClientConfig | Cluster,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    *,
    deadline: float | None = None,
) -> None:
    """Commit or abort the transaction that a producer of any process has written under this producer id and epoch.

    Waits and raises as `TransactionRequests.end` does.
    """
    identity = ProducerIdentity(producer_id, producer_epoch)
    with TransactionRequests(source, transactional_id, identity=identity) as requests:
        requests.end(commit, deadline=deadline)


def _raise(code: int, what: str) -> None:
    if code:
        raise about(code, what)


def _raise_worst(results: Iterable[tuple[int, str]]) -> None:
    """Raise one of the errors, rather one that is not retriable.

    OPERATION_NOT_ATTEMPTED is raised only where there is no other.
    """
    errors = [(error_for(code), what) for code, what in results if code]
    if errors:
        error, what = min(
            errors, key=lambda each: (each[0].code == ErrorCode.OPERATION_NOT_ATTEMPTED, each[0].retriable)
        )
        raise type(error)(f"{what}: {error.message}")

"""The requests of a transaction (KIP-98) as plain calls, each tried again as long as that may help.

The order is Kafka's: `init`, then for every transaction `add_partitions` before the first batch goes to a partition,
`add_offsets` and `commit_offsets` for what was consumed, and `end`. Batches themselves are the producer's
(``kafkalog.client.producer``). Nothing is kept between calls but the producer id and epoch, which another process may
go on with: `end_transaction` ends what somebody else wrote.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Broker, Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import ClientError
from kafkalog.client.retry import Retry
from kafkalog.client.transaction_errors import Operation, transaction_error
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
from kafkalog.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 60_000
"""transaction.timeout.ms of Kafka's producer."""
CONCURRENT_BACKOFF_S = 0.02
"""Pause where the previous transaction is still being completed, which takes a few milliseconds (KAFKA-5482)."""
_ONE_TRANSACTION = 3
"""AddPartitionsToTxn 4 and later are for brokers."""


class ProducerIdentity(NamedTuple):
    """Who writes, to brokers: a producer id and its epoch; -1 and -1 for nobody yet."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionRequests(Closing):
    """The requests of one transactional id. Safe for use by several threads, of which one at a time may `init`.

    ``source`` is a client's configuration, or a Cluster, which stays the caller's. ``identity`` is the producer id and
    epoch that another process got by `init`. Every call waits until ``deadline`` (``time.monotonic``;
    ``default.api.timeout.ms`` from now unless given) and raises ClientTimeoutError then: it may be made again. Other
    errors are FencedError and other FatalTransactionErrors, after which no call here succeeds, and
    AbortableTransactionError, after which `end` with ``commit=False`` does.
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

    def init(self, *, deadline: float | None = None) -> ProducerIdentity:
        """Get a producer id and epoch; whoever had an older epoch is fenced, and their open transaction aborted."""
        return self._init(ProducerIdentity(), deadline)

    def raise_epoch(self, *, deadline: float | None = None) -> ProducerIdentity:
        """Get the next epoch of the present producer id, whose transaction has ended (KIP-360).

        FencedError where somebody else got one meanwhile.
        """
        return self._init(self.identity, deadline)

    def add_partitions(self, partitions: Iterable[TopicPartition], *, deadline: float | None = None) -> None:
        """Tell the coordinator that batches of the transaction go to these partitions, which begins it."""
        wanted = set(partitions)
        if wanted:
            self._ask(Operation.ADD_PARTITIONS, lambda node_id, timeout: self._add(node_id, timeout, wanted), deadline)

    def add_partitions_now(self, partitions: Iterable[TopicPartition], *, deadline: float) -> None:
        """As `add_partitions`, but what another try may help against is raised, too, as it is, at once."""
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
        """Tell the coordinator that offsets of this consumer group belong to the transaction, which begins it."""
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
        """Commit the next offsets to read, which count once the transaction commits; after `add_offsets`.

        With a consumer's group metadata (KIP-447) the group's coordinator refuses those of a member that was replaced.
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
        """Commit or abort the transaction; it is decided when this returns, and visible a moment later.

        FatalTransactionError (INVALID_TXN_STATE) where no partition and no group were added, or where it was ended the
        other way. Ending it once more in the same way does nothing.
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

    def _init(self, present: ProducerIdentity, deadline: float | None) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
            producer_id=present.producer_id,
            producer_epoch=present.producer_epoch,
        )

        def attempt(node_id: int, timeout: float) -> ProducerIdentity:
            # Below version 3 no epoch of an id at hand can be asked for.
            answer: InitProducerIdResponse = self._cluster.request_to(node_id, request, timeout=timeout)
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
        """Run ``attempt`` at the coordinator of the transactional id, or of ``group``, until it is through."""
        retry = Retry(self._cluster.config, deadline)

        def patiently(coordinator: Broker, timeout: float) -> T:
            while True:
                try:
                    return attempt(coordinator.node_id, min(timeout, max(retry.left, 0.001)))
                except ConcurrentTransactionsError:
                    if retry.left <= CONCURRENT_BACKOFF_S:
                        raise
                    time.sleep(CONCURRENT_BACKOFF_S)

        kind = CoordinatorType.TRANSACTION if group is None else CoordinatorType.GROUP
        key = self.transactional_id if group is None else group
        try:
            return self._coordinators.run(kind, key, patiently, deadline=retry.deadline)
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
    """Commit or abort what a producer of any process has written under this producer id and epoch.

    Waits and raises as ``TransactionRequests.end``.
    """
    identity = ProducerIdentity(producer_id, producer_epoch)
    with TransactionRequests(source, transactional_id, identity=identity) as requests:
        requests.end(commit, deadline=deadline)


def _raise(code: int, what: str) -> None:
    if code:
        error = error_for(code)
        raise type(error)(f"{what}: {error.message}")


def _raise_worst(results: Iterable[tuple[int, str]]) -> None:
    """Raise one of the errors: one that cannot be tried again, if any, and what was not attempted last of all."""
    errors = [(error_for(code), what) for code, what in results if code]
    if errors:
        error, what = min(
            errors, key=lambda each: (each[0].code == ErrorCode.OPERATION_NOT_ATTEMPTED, each[0].retriable)
        )
        raise type(error)(f"{what}: {error.message}")

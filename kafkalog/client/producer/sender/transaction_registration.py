"""The sender's part in transactions: add partitions before their batches are sent, and drop useless batches."""

from __future__ import annotations

import time

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, is_retriable
from kafkalog.client.producer.accumulator import Accumulator
from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import PartitionQueue
from kafkalog.client.producer.sender.topic_metadata import Topics
from kafkalog.client.producer.transactions.transaction_manager import State, TransactionAbortedError, TransactionManager
from kafkalog.client.transactions.requests import CONCURRENT_BACKOFF_S, ProducerIdentity, TransactionRequests
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
)
from kafkalog.records.batch import NO_SEQUENCE

_UNSURE = (ClientError, CoordinatorNotAvailableError, NotCoordinatorError)
"""Errors after which the transaction may have begun. A coordinator answers the latter two also where it has written to
its log, and the write was not confirmed (`TransactionStateManager.appendTransactionToLog`)."""


class TransactionRegistration:
    """The work of the sender's thread for the transactions of a producer with a `transactional.id`.

    Attributes:
        next_at: When partitions may be added (`time.monotonic`); later than now after a failure.
    """

    def __init__(self, config: ProducerConfig, cluster: Cluster, accumulator: Accumulator, topics: Topics) -> None:
        assert config.transactional_id is not None
        assert accumulator.transactions is not None
        self.transactions: TransactionManager = accumulator.transactions
        timeout_ms = round(config.transaction_timeout * 1000)
        self.requests = TransactionRequests(cluster, config.transactional_id, timeout_ms)
        self.next_at = 0.0
        self._pause = config.client.retry_backoff
        self._accumulator = accumulator
        self._topics = topics

    @property
    def fatal(self) -> Exception | None:
        """The error that has ended the use of the producer, or None."""
        return self.transactions.error if self.transactions.state is State.FATAL_ERROR else None

    def withdraw(self) -> tuple[list[ProducerBatch], Exception]:
        """Take out the batches that are useless because the transaction cannot commit; return them and their error.

        As in Java (`Sender.maybeSendAndPollTransactionalRequest`), that is the broker's error where one has ended the
        transaction, such as the missing right to a topic.
        """
        batches = self._accumulator.withdraw()
        error = self.transactions.error if batches else None
        if error is not None and isinstance(error.__cause__, KafkaError):
            # With a cause, unlike the error of the batch that the broker has refused.
            found = type(error.__cause__)(error.__cause__.message)
            found.__cause__ = error
            return batches, found
        text = f"transactional.id {self.transactions.transactional_id}: the transaction was aborted before"
        return batches, TransactionAbortedError(
            f"{text} the record was sent{f': {error}' if error is not None else ''}"
        )

    def register(self, partitions: list[TopicPartition], limit: float) -> None:
        """Ask the coordinator to add partitions to the transaction, until about `limit`."""
        self.next_at = time.monotonic() + self._pause
        patience = self._topics.patience
        try:
            self.requests.add_partitions_now(partitions, deadline=patience.deadline(limit))
        except (ClientError, KafkaError) as error:
            if isinstance(error, ConcurrentTransactionsError):
                self.next_at = time.monotonic() + CONCURRENT_BACKOFF_S
            elif is_retriable(error):
                if isinstance(error, _UNSURE):
                    with self._accumulator.lock:
                        self.transactions.doubt()
                self._topics.last_error = patience.failed(error)
            else:
                self.fail(error)
            return
        self.next_at = 0.0
        patience.succeeded()
        with self._accumulator.lock:
            self.transactions.added(partitions)

    def needs_number(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Tell whether a batch needs the partition's next number. Where the epoch is new, the sequence begins again."""
        if batch.base_sequence != NO_SEQUENCE:
            return False
        identity = self.requests.identity
        if ProducerIdentity(queue.producer_id, queue.producer_epoch) != identity:
            queue.producer_id, queue.producer_epoch = identity
            queue.begin_sequence()
        return True

    def fail(self, error: Exception, *, batch: bool = False) -> None:
        """Fail the transaction; `batch` says that the error is of a batch that a leader may have."""
        with self._accumulator.lock:
            self.transactions.fail(error, batch=batch)
            self._accumulator.admit()

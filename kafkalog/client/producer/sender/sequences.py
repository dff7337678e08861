"""The producer id, the epochs and the sequence numbers of an idempotent producer (KIP-98, KIP-360).

Each partition's batches carry the producer's id and epoch, and a sequence number that counts records. A broker appends
a batch that continues the sequence, answers a repeated batch with the offset of its first append, and refuses a gap. A
batch keeps its number however often it is sent. A partition goes on with the next epoch, whose sequence begins at 0,
where a batch was given up although it may be in the log, or where the broker has lost track of the sequence. A batch
that may be in the log gets a new number only once the broker has refused its old one; otherwise it could be appended
twice.
"""

from __future__ import annotations

import time

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, about, is_retriable
from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import PartitionQueue
from kafkalog.client.producer.sender.topic_metadata import Topics
from kafkalog.client.producer.sender.transaction_registration import TransactionRegistration
from kafkalog.protocol.errors import ClusterAuthorizationFailedError, ErrorCode, KafkaError
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

SEQUENCE_MASK = 0x7FFFFFFF
MAX_EPOCH = 0x7FFE


class Sequences:
    """Number batches before they are sent. Used by the sender's thread alone.

    `registration` is the sender's part in transactions; None for a producer without a `transactional.id`.

    Attributes:
        request_at: When a producer id may be requested (`time.monotonic`): after a pause where the last request failed.
    """

    def __init__(
        self, config: ProducerConfig, cluster: Cluster, topics: Topics, registration: TransactionRegistration | None
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._topics = topics
        self._registration = registration
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self._spent = False
        """True if some partition has used the producer id's last epoch, so that another id must be requested."""
        self.request_at = 0.0

    @property
    def identified(self) -> bool:
        """Return whether there is a producer id.

        With transactions, init_transactions got one before the first record.
        """
        return self._registration is not None or (self.producer_id != NO_PRODUCER_ID and not self._spent)

    def number(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Give the partition's next sequence numbers to a batch that has none."""
        if not self._config.idempotence:
            return
        if self._registration is not None:
            if self._registration.needs_number(queue, batch):
                self._assign(queue, batch)
            return
        if queue.reset and not batch.in_doubt:
            self._begin_epoch(queue, batch)
        elif batch.base_sequence == NO_SEQUENCE:
            if queue.producer_id == NO_PRODUCER_ID:
                queue.producer_id, queue.producer_epoch = self.producer_id, self.producer_epoch
                queue.begin_sequence()
            self._assign(queue, batch)

    def _begin_epoch(self, queue: PartitionQueue, first: ProducerBatch) -> None:
        """Begin the partition's sequence again at 0; no batch of the partition but `first` may be in flight."""
        queue.reset = False
        if queue.producer_id == NO_PRODUCER_ID or queue.producer_epoch >= MAX_EPOCH:
            queue.producer_id, queue.producer_epoch = self.producer_id, self.producer_epoch
        else:
            queue.producer_epoch += 1
        if queue.producer_epoch >= MAX_EPOCH:
            # The next new epoch needs another producer id. It is requested before any further batch is taken.
            self._spent = True
        queue.begin_sequence()
        self._assign(queue, first)
        # Threads that send records append to it meanwhile.
        for batch in tuple(queue.ready):
            if batch.base_sequence != NO_SEQUENCE:
                self._assign(queue, batch)

    @staticmethod
    def _assign(queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.identify(queue.producer_id, queue.producer_epoch, queue.next_sequence)
        queue.next_sequence = (queue.next_sequence + batch.count) & SEQUENCE_MASK

    def request_producer_id(self, limit: float) -> bool:
        """Request a producer id, until about `limit` (`time.monotonic`); return whether there is one now.

        Raises:
            Exception: Another try does not help.
        """
        self.request_at = time.monotonic() + self._config.client.retry_backoff
        try:
            response = self._cluster.request_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF),
                deadline=self._topics.patience.deadline(limit),
            )
            if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                # Kafka 2.8 began to give ids also to those who may write (KIP-679).
                raise ClusterAuthorizationFailedError(
                    "no producer id (enable.idempotence): the user needs IdempotentWrite on the cluster, or since "
                    "Kafka 2.8 Write on any topic; or set enable.idempotence=false"
                )
            if response.error_code:
                raise about(response.error_code, "no producer id (enable.idempotence)")
        except (ClientError, KafkaError) as error:
            self._topics.last_error = self._topics.patience.failed(error)
            if not is_retriable(error):
                raise
            return False
        self._spent = False
        self.producer_id = response.producer_id
        self.producer_epoch = response.producer_epoch
        return True

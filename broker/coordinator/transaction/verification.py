"""Asks the coordinator of a transaction, on another broker, whether the transaction covers partitions (KIP-890).

It sends AddPartitionsToTxn of version 4 or later, which only verifies. A coordinator that does not know that version
cannot tell: then the transaction counts as verified, as in Kafka's `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker.cluster_links import Connect
from broker.controller.broker_links import BrokerLinks
from broker.coordinator.transaction.machine import Producer, TopicPartition
from broker.metadata.cache import MetadataCache
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    UnsupportedVersionError,
    error_for,
)
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkalog.storage.topics import TRANSACTION_STATE

VERIFYING_SINCE = 4

Unverified = dict[TopicPartition, KafkaError]
"""The partitions that the transaction does not cover, or of which that is not known, with the reason."""


class Verifier:
    """Verifies transactions with their coordinators. Used on the event loop's thread only.

    Args:
        partition_for: returns the partition of `__transaction_state` of a transactional id.
        cache: finds its leader.
        connect: makes a link to a broker.
    """

    def __init__(self, partition_for: Callable[[str], int], cache: MetadataCache, connect: Connect) -> None:
        self._partition_for = partition_for
        self._cache = cache
        self._links = BrokerLinks(connect, "txn-verification")

    async def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Unverified:
        """Return the partitions that are not verified; see `Unverified`."""
        try:
            index = self._partition_for(transactional_id)
            state = self._cache.image.partition(TRANSACTION_STATE, index)
            coordinator = None if state is None else self._cache.image.brokers.get(state.leader)
            if coordinator is None:
                raise CoordinatorNotAvailableError
            request = _request(transactional_id, producer, partitions)
            response = await self._links.to(coordinator).request(request, min_version=VERIFYING_SINCE)
        except UnsupportedVersionError:
            return {}
        except LinkError as error:
            return dict.fromkeys(partitions, CoordinatorNotAvailableError(str(error)))
        except KafkaError as error:
            return dict.fromkeys(partitions, error)
        return _unverified(response, partitions)

    async def close(self) -> None:
        """Close the links."""
        await self._links.close()


def _request(
    transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _unverified(response: AddPartitionsToTxnResponse, partitions: Collection[TopicPartition]) -> Unverified:
    if response.error_code != ErrorCode.NONE:
        refused = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        error = InvalidTxnStateError() if refused else error_for(response.error_code)
        return dict.fromkeys(partitions, error)
    codes = {
        (topic.name, partition.partition_index): partition.partition_error_code
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for partition in topic.results_by_partition
    }
    return {partition: _error(code) for partition in partitions if (code := codes.get(partition, ErrorCode.NONE))}


def _error(code: int) -> KafkaError:
    # Brokers tell each other PRODUCER_FENCED. Producers expect its predecessor here.
    return InvalidProducerEpochError() if code == ErrorCode.PRODUCER_FENCED else error_for(code)

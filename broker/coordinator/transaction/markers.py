"""Transaction markers: the control batches that end a transaction in a partition to which it wrote.

One function writes them, for this broker's coordinator, for WriteTxnMarkers (of another coordinator, or of an
administrator who ends a hanging transaction), and for partitions of `__consumer_offsets`, whose groups learn of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker.log.append.validation import Origin
from broker.replica.acknowledging.appended import Appended
from broker.replica.acknowledging.waiting import acknowledgement
from broker.replica.manager import ReplicaManager
from broker.replica.partition import ACKS_ALL
from kafkalog.protocol.errors import UnsupportedForMessageFormatError
from kafkalog.records.batch import MAGIC
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from kafkalog.storage.topics import CONSUMER_OFFSETS

DEFAULT_TIMEOUT_MS = 30_000
"""The time that a marker waits for the high watermark, as Kafka's `request.timeout.ms`."""


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition of `__transaction_state`. A partition refuses markers of older
    ones."""


class MarkerWriter:
    """Writes transaction markers. Used on the event loop's thread only.

    Args:
        on_offsets: called with the position of a marker that was appended to a partition of `__consumer_offsets`,
            before anything else is appended; the marker need not be replicated yet.

    Attributes:
        on_marker: called with topic, partition and producer id of each marker that is appended, in the same turn.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        now_ms: Callable[[], int],
        on_offsets: Callable[[Marker, Appended], None],
    ) -> None:
        self._replicas = replicas
        self._now_ms = now_ms
        self._on_offsets = on_offsets
        self.on_marker: Callable[[str, int, int], None] = lambda topic, index, producer_id: None

    def write(self, topic: str, index: int, marker: Marker) -> asyncio.Future[int]:
        """Append `marker` to a partition led here, now.

        Returns:
            A future, which may be done already, of the marker's offset once it is replicated. In a topic that keeps
            the offsets of its source, a marker that ends nothing is left out. The errors:
            UnknownTopicOrPartitionError, NotLeaderOrFollowerError, KafkaStorageError, NotEnoughReplicasError,
            NotEnoughReplicasAfterAppendError, RequestTimedOutError; InvalidProducerEpochError,
            TransactionCoordinatorFencedError (an older producer or coordinator than the partition knows);
            UnsupportedForMessageFormatError.
        """
        replicas = self._replicas
        try:
            partition = replicas.require(topic, index)
            if partition.log.config.message_format < MAGIC:
                raise UnsupportedForMessageFormatError
            log = partition.log
            if log.config.mirror_source and marker.producer_id not in log.producers.ongoing.values():
                # It has nothing to end here, where producers cannot write; and its offset belongs to the source.
                self.on_marker(topic, index, marker.producer_id)
                ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                ended.set_result(log.log_end_offset)
                return ended
            now_ms = self._now_ms()
            kind = ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
            batch = EndTransactionMarker(kind, marker.coordinator_epoch).encode(
                timestamp=now_ms, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch
            )
            written = replicas.append(
                partition, memoryview(batch), len(batch), ACKS_ALL, now_ms, origin=Origin.COORDINATOR
            )
        except Exception as error:
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            future.set_exception(error)
            return future
        self.on_marker(topic, index, marker.producer_id)
        replicas.stabilized(partition)
        if topic == CONSUMER_OFFSETS:
            self._on_offsets(marker, written)
        return acknowledgement(replicas.produce_purgatory, written, DEFAULT_TIMEOUT_MS)

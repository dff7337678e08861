"""Stores the ledger as metadata of offsets that a group of its own has committed, within transactions.

The group is `PREFIX-ledger`, the transactional id `PREFIX-driver`. A driver that opens the ledger gets a new epoch
of that id. The epoch aborts what another driver was about to write, and fences it. So what is read afterwards stays
true until this driver writes, or is fenced itself. Offsets can be committed only for topics that exist; nothing is
written to the topic that lends its name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafkalog.client.cluster import Cluster
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.transactions.errors import FencedError, TransactionError
from kafkalog.client.transactions.requests import TransactionRequests
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    KafkaError,
    OffsetMetadataTooLargeError,
    UnsupportedVersionError,
    error_for,
)
from kafkalog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafkalog.protocol.wire.releases import PRESENT_EPOCH, STABLE_OFFSETS
from spark_kafkalog.sink.transactional.errors import LedgerError, OldBrokersError, TakenOverError
from spark_kafkalog.sink.transactional.ledger_record import Record, decode, encode

WRITE_TIMEOUT_MS = 60_000
"""A writing of a driver that died is aborted by the next driver, or after this time."""
_STABLE = STABLE_OFFSETS.version
"""The version of OffsetFetch that is spoken: the first one that waits for transactions, and the last one for a single
group."""


class Ledger:
    """Reads and writes the ledger of one prefix.

    Waits for brokers until `deadline` (`time.monotonic`), which the caller may move.
    """

    def __init__(self, cluster: Cluster, prefix: str, topic: str, deadline: float) -> None:
        self.prefix = prefix
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self._group = f"{prefix}-ledger"
        self._topic = topic
        self.deadline = deadline
        self._requests = TransactionRequests(cluster, f"{prefix}-driver", WRITE_TIMEOUT_MS)
        self._partitions: int | None = None

    def open(self) -> Record:
        """Fence every other driver, and read the ledger.

        Raises:
            OldBrokersError: The brokers are too old, and nothing has changed there.
            LedgerError: The ledger cannot be decoded.
        """
        try:
            # The same release added stable offsets, so that with older brokers this first request fails.
            self._requests.init(deadline=self.deadline, min_version=PRESENT_EPOCH.version)
        except TransactionError as error:
            if isinstance(error.__cause__, UnsupportedVersionError):
                raise OldBrokersError from error
            raise
        return self.read()

    def read(self) -> Record:
        """Read the ledger. Waits while somebody writes it.

        Raises:
            LedgerError: The ledger cannot be decoded.
        """
        # A fetch of all offsets omits a partition whose first commit is still pending, so it would not wait for that
        # commit. The fetch of partition 0 does.
        first = self._fetch([OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])])
        return decode([*first, *self._fetch(None)], self.prefix)

    def write(self, record: Record) -> None:
        """Replace the ledger's record atomically; call `open` first.

        After any error but the one below the record may have been written or not: open the ledger to find out.

        Raises:
            TakenOverError: Another driver has opened the ledger since.
        """
        pieces = self._pieces(record)
        offsets = {
            TopicPartition(self._topic, index): OffsetAndMetadata(record.number, -1, text)
            for index, text in enumerate(pieces)
        }
        try:
            self._requests.add_offsets(self._group, deadline=self.deadline)
            self._requests.commit_offsets(offsets, self._group, deadline=self.deadline)
            self._requests.end(True, deadline=self.deadline)
        except FencedError as error:
            raise TakenOverError(self.prefix) from error
        except TransactionError as error:
            if isinstance(error.__cause__, OffsetMetadataTooLargeError):
                raise LedgerError(
                    f"the brokers' offset.metadata.max.bytes is too small for the {max(map(len, pieces))} characters "
                    "that the ledger needs: raise it to 4096, its default"
                ) from error
            raise

    def _pieces(self, record: Record) -> list[str]:
        try:
            return encode(record, self.prefix, 1)
        except LedgerError:
            if self._partitions is None:
                self._partitions = len(self._cluster.partitions(self._topic, deadline=self.deadline))
            return encode(record, self.prefix, self._partitions)

    def _fetch(self, topics: Sequence[OffsetFetchRequestTopic] | None) -> list[str]:
        """Return the metadata of committed offsets, without empty ones."""
        request = OffsetFetchRequest(
            group_id=self._group, topics=None if topics is None else list(topics), require_stable=True
        )
        found: list[str] = []

        def check(answer: OffsetFetchResponse) -> None:
            parts = [each for topic in answer.topics for each in topic.partitions]
            codes = [code for code in (answer.error_code, *(each.error_code for each in parts)) if code]
            if codes:
                error = error_for(codes[0])
                raise type(error)(f"reading the ledger, group {self._group}: {error.message}")
            found[:] = [each.metadata for each in parts if each.committed_offset >= 0 and each.metadata]

        try:
            self._coordinators.request(
                *(CoordinatorType.GROUP, self._group, request, check),
                deadline=self.deadline,
                max_version=_STABLE,
                min_version=_STABLE,
            )
        except UnsupportedVersionError as error:
            raise OldBrokersError from error
        return found


def ledger_topic(cluster: Cluster, topic: str, deadline: float) -> str:
    """Wait until the topic exists, and return it. Brokers with automatic topic creation create it."""
    while True:
        known = cluster.metadata([topic], refresh=True, deadline=deadline, allow_auto_topic_creation=True)
        code = known.topics[topic].error_code
        if not code:
            return topic
        error: KafkaError = error_for(code)
        waiting = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
        if code not in waiting or time.monotonic() >= deadline:
            raise type(error)(f"topic {topic}: {error.message}")
        time.sleep(min(cluster.config.retry_backoff, max(deadline - time.monotonic(), 0)))

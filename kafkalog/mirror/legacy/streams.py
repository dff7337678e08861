"""Streams whose groups are coordinated by brokers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

from kafkalog.client.consumer import CommitFailedError, Consumer, RebalanceListener
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.legacy.deliveries import Deliveries
from kafkalog.mirror.legacy.mirroring import Mirroring
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_POLL_S = 0.25


class Stream(RebalanceListener):
    """One consumer, which sends by the producers of all streams.

    Args:
        consumer: The properties of the consumer, with those of `defaults`.
        mirroring: What it has in common with the other streams.
    """

    def __init__(self, consumer: Mapping[str, str], mirroring: Mirroring) -> None:
        self._consumer = Consumer(consumer)
        self._topics, self._senders = mirroring.topics, mirroring.senders
        self._interval = mirroring.commit_interval
        self._deliveries = Deliveries(mirroring.abort)
        self._has_failed = False
        """The positions may be behind records that were never sent."""

    def run(self, stop: threading.Event, wait_for_others: Callable[[], None]) -> None:
        """Mirror until `stop` is set, then commit; `wait_for_others` is called before the group is left.

        After an error nothing more is committed.

        Raises:
            SendFailedError: A record could not be delivered.
            KafkaError, ClientError: The source or the target refuses the client.
        """
        with self._consumer:
            try:
                self._mirror(stop)
                wait_for_others()
            except BaseException:
                # Closing the consumer revokes its partitions, and the last poll has moved the positions behind all of
                # its records, whether they were sent or not.
                self._has_failed = True
                raise

    def _mirror(self, stop: threading.Event) -> None:
        consumer = self._consumer
        consumer.subscribe(pattern=self._topics, listener=self)
        commit_at = time.monotonic() + self._interval
        while not stop.is_set():
            for record in consumer.poll(_POLL_S):
                self._senders.send(record, self._deliveries)
            if self._deliveries.have_failed or time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + self._interval
        self._commit()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what was delivered, before another member goes on."""
        if not self._has_failed:
            self._commit()

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing: others have the partitions already."""

    def _commit(self) -> None:
        self._senders.flush()
        self._deliveries.check()
        try:
            self._consumer.commit()
        except (ClientTimeoutError, CommitFailedError) as error:
            # If the group has gone on, whoever has the partitions now mirrors these records again.
            logger.warning("the positions are not committed: %s", error)
        except KafkaError as error:
            # The group rebalances: whoever gets partitions that were not committed mirrors their records again.
            logger.warning("the positions are not committed: %s", error.message)

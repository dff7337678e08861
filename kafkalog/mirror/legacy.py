"""Mirror as MirrorMaker 1 did: consume records, and produce them to the topics of the same names.

A record's key decides about its partition, and so may be in another one than in the source. Offsets are committed in
the source after the records were delivered: a crash may bring some of them twice, and loses none. With
`abort.on.send.failure=false` a record that the target does not take is left out. Source: `kafka.tools.MirrorMaker` of
Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence

from kafkalog.client.consumer import Consumer, RebalanceListener, TopicFilter
from kafkalog.client.errors import ClientError, ClientTimeoutError
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_POLL_S = 0.25
_NO_LOSS = {
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(0x7FFFFFFF),
    "max.block.ms": str(0x7FFFFFFF),
}
"""Defaults with which the producer loses and reorders nothing."""


class SendFailedError(ClientError):
    """The target has not taken a record, and `abort.on.send.failure` is set."""


class Stream(RebalanceListener):
    """One consumer, which sends by the producer of all streams.

    Args:
        consumer: The properties of the consumer.
        topics: The topics to mirror.
        producer: The producer.
        commit_interval: Seconds between commits.
        abort: Whether a record that cannot be delivered ends the stream.
    """

    def __init__(
        self,
        consumer: Mapping[str, str],
        topics: TopicFilter,
        producer: Producer,
        *,
        commit_interval: float,
        abort: bool,
    ) -> None:
        self._consumer = Consumer({"enable.auto.commit": "false", **consumer})
        self._topics = topics
        self._producer = producer
        self._interval, self._abort = commit_interval, abort
        self._failure: BaseException | None = None
        self.dropped = 0

    def run(self, stop: threading.Event) -> None:
        """Mirror until `stop` is set, then commit.

        Raises:
            SendFailedError: A record could not be delivered.
            KafkaError, ClientError: The source or the target refuses the client.
        """
        with self._consumer as consumer:
            consumer.subscribe(pattern=self._topics, listener=self)
            commit_at = time.monotonic() + self._interval
            while not stop.is_set():
                for record in consumer.poll(_POLL_S):
                    timestamp = None if record.timestamp < 0 else record.timestamp
                    self._producer.send(
                        record.topic,
                        record.value,
                        record.key,
                        record.headers,
                        timestamp,
                        on_delivery=self._delivered,
                    )
                if self._failure is not None or time.monotonic() >= commit_at:
                    self._commit()
                    commit_at = time.monotonic() + self._interval
            self._commit()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what was delivered, before another member goes on."""
        self._commit()

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing: others have the partitions already."""

    def _delivered(self, metadata: object, error: BaseException | None) -> None:
        if error is None:
            return
        if self._abort:
            self._failure = self._failure or error
        else:
            self.dropped += 1
            logger.warning("a record is left out: %s", error)

    def _commit(self) -> None:
        self._producer.flush()
        if self._failure is not None:
            raise SendFailedError(f"abort.on.send.failure: a record was not delivered: {self._failure}")
        try:
            self._consumer.commit()
        except ClientTimeoutError as error:
            logger.warning("the positions are not committed: %s", error)
        except KafkaError as error:
            # The group has gone on: whoever has the partitions now mirrors these records again.
            logger.warning("the positions are not committed: %s", error.message)


def run(
    consumers: Sequence[Mapping[str, str]],
    producer: Mapping[str, str],
    topics: TopicFilter,
    *,
    streams: int,
    commit_interval: float,
    abort: bool,
    stop: threading.Event,
) -> None:
    """Mirror by `streams` consumers in threads for each source, until `stop` is set or one of them fails.

    `consumers` are the properties for each source; all send by one producer.

    Raises:
        Exception: The error with which a stream has failed.
    """
    failures: list[Exception] = []

    def run_stream(stream: Stream) -> None:
        try:
            stream.run(stop)
        except Exception as error:
            failures.append(error)
            stop.set()

    with Producer({**_NO_LOSS, **producer}) as sender:
        made = [
            Stream(
                {**consumer, "client.id": f"{_client_id(consumer)}-{number}"},
                topics,
                sender,
                commit_interval=commit_interval,
                abort=abort,
            )
            for consumer in consumers
            for number in range(streams)
        ]
        threads = [threading.Thread(target=run_stream, args=(each,), name=f"mirror-{n}") for n, each in enumerate(made)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                # The main thread must be able to handle signals.
                thread.join(_POLL_S)
        if failures:
            raise failures[0]


def _client_id(consumer: Mapping[str, str]) -> str:
    return consumer.get("client.id", consumer.get("group.id", "mirror"))

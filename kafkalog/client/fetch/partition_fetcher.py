"""Fetch the record bytes of one partition from its leader, or from a follower that the leader names.

There is no fetch session (KIP-227): a request for one partition has nothing to leave out.
"""

from __future__ import annotations

import logging
import time
from uuid import UUID

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, ClientTimeoutError, ConnectionFailedError, InvalidResponseError
from kafkalog.client.fetch.fetch_request import (
    MIN_VERSION,
    FetchedRecords,
    fetch_request,
    max_version,
    read_partition,
    topic_of,
)
from kafkalog.client.metadata import Broker
from kafkalog.client.network.connection import Connection
from kafkalog.client.retry import Retry
from kafkalog.client.types import READ_UNCOMMITTED, TopicPartition
from kafkalog.protocol.errors import ErrorCode, UnknownTopicIdError, error_for
from kafkalog.protocol.messages.fetch import FetchResponse, PartitionData
from kafkalog.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

_LEAST_AGE_S = 1.0
"""A follower is fetched from for at least this long, however small `metadata.max.age.ms` is."""


class PartitionFetcher(Closing):
    """Fetch one partition from its present leader, or from a follower nearby, over a connection of its own.

    Not safe for several threads at once, but independent of what other threads do with the cluster.

    Args:
        cluster: Finds the leader and opens the connection.
        tp: The partition.
        max_bytes: The size of one fetch; the first batch is whole even where it is larger. `fetch.max.bytes` unless
            given.
        isolation_level: READ_COMMITTED or READ_UNCOMMITTED.
        max_wait: How many seconds the broker waits for `fetch.min.bytes`; `fetch.max.wait.ms` unless given.
        rack: Where this client is (`client.rack`). The leader may name a follower there to fetch from (KIP-392). That
            holds for `metadata.max.age.ms`, or until the follower fails.
        topic_id: The id of the topic to read. If the topic was deleted and created again, fetches fail with
            UnknownTopicIdError. Brokers before Kafka 3.1 fetch by name, so there the id is only compared with the
            metadata, before each new connection. Zero reads whatever topic has the name.
    """

    def __init__(
        self,
        cluster: Cluster,
        tp: TopicPartition,
        *,
        max_bytes: int | None = None,
        isolation_level: int = READ_UNCOMMITTED,
        max_wait: float | None = None,
        rack: str = "",
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        config = cluster.config
        self.tp = TopicPartition(*tp)
        self._cluster = cluster
        self._config = config
        self._max_bytes = config.fetch_max_bytes if max_bytes is None else max_bytes
        self._isolation_level = isolation_level
        self._max_wait = config.fetch_max_wait if max_wait is None else max_wait
        self._rack = rack
        self._topic_id = topic_id
        self._known_id = ZERO_UUID
        """The id in the metadata that the connection was made by; zero for brokers whose topics have none."""
        self._replica: tuple[int, float] | None = None
        """The follower to fetch from, and until when (`time.monotonic`)."""
        self._at_replica = False
        self._connection: Connection | None = None
        self._leader_epoch = -1
        self._asked: int | None = None
        self._is_patient = True
        self._was_held_back = False
        self._stopped = False

    def fetch(self, offset: int, *, deadline: float | None = None) -> FetchedRecords:
        """Fetch record batches from `offset` on; there are none where nothing is written within `max_wait`.

        Follows the partition to a new leader. `deadline` is a time of `time.monotonic`; unless given, it is
        `default.api.timeout.ms` from now, not counting the time for which the leader holds the client back because of a
        quota.

        Raises:
            OffsetOutOfRangeError: The log does not have the offset.
            UnknownTopicIdError: The topic of that name has another id than the one to read.
            KafkaError: The leader reports another error that is not retriable.
            ClientTimeoutError: No leader has answered by `deadline`.
        """
        retry = Retry(self._config, deadline)
        self._is_patient = deadline is None
        return retry.run(lambda: self._fetch_once(offset, retry), lambda error: self._look_again())

    def prefetch(self, offset: int) -> None:
        """Send the request that the next `fetch(offset)` will need, and return at once.

        A later `fetch` of another offset discards the answer. Nothing is sent where the leader is not connected.
        """
        connection = self._connection
        if connection is None or connection.closed or self._asked is not None:
            return
        try:
            self._send(connection, offset)
        except (ConnectionFailedError, ClientTimeoutError):
            # The connection is closed now; the next fetch opens another one.
            self._asked = None

    def stop(self) -> None:
        """Make the fetch for which another thread is waiting fail with ClientError, and every later fetch."""
        self._stopped = True
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._asked = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fetch_once(self, offset: int, retry: Retry) -> FetchedRecords:
        while True:
            self._check_not_stopped()
            connection = self._connected(retry)
            # `stop` may have been called before the connection existed.
            self._check_not_stopped()
            if self._asked is not None and self._asked != offset:
                self._receive(connection, retry)
            if self._asked is None:
                self._send(connection, offset)
            data = self._receive(connection, retry)
            if data is not None and not self._goes_elsewhere(data, retry):
                return read_partition(self.tp, data, offset)

    def _goes_elsewhere(self, data: PartitionData, retry: Retry) -> bool:
        """Return whether another replica is to be asked, and close the connection to this one then."""
        if self._at_replica and data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and retry.left > 0:
            # The follower may be behind the leader, or may have deleted more records: ask the leader.
            self._replica = None
            time.sleep(min(self._config.retry_backoff, retry.left))
        elif not data.error_code and data.preferred_read_replica >= 0 and not data.records:
            age = max(self._config.metadata_max_age, _LEAST_AGE_S)
            self._replica = data.preferred_read_replica, time.monotonic() + age
        else:
            return False
        self.close()
        return True

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise ClientError(f"the fetch of {self.tp} was stopped")

    def _send(self, connection: Connection, offset: int) -> None:
        request = fetch_request(
            [(self.tp, offset, self._leader_epoch)],
            self._config,
            max_bytes=self._max_bytes,
            partition_max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            max_wait=self._max_wait,
            topic_ids=self._ids(),
        )
        request.rack_id = self._rack
        connection.send(request, min_version=MIN_VERSION, max_version=max_version(request))
        self._asked = offset

    def _ids(self) -> dict[TopicPartition, UUID]:
        """Return the id to fetch by; none where the name decides."""
        return {self.tp: self._known_id} if ZERO_UUID not in (self._topic_id, self._known_id) else {}

    def _receive(self, connection: Connection, retry: Retry) -> PartitionData | None:
        """Return the partition's part of the answer; None where the client is above a quota and must ask again."""
        self._asked = None
        # However near the deadline is, a leader may take as long as it was told to wait for records. The time for which
        # it has said that it will serve nothing does not count.
        held_back = max(connection.serves_at - time.monotonic(), 0.0)
        if self._is_patient:
            retry.deadline += held_back
        patience = max(min(self._config.request_timeout + held_back, retry.left), 0.001)
        response: FetchResponse = connection.receive(timeout=patience + self._max_wait)
        if response.error_code:
            raise error_for(response.error_code)
        names = {self._topic_id: self.tp.topic}
        for topic in response.responses:
            for data in topic.partitions:
                if topic_of(topic, names) == self.tp.topic and data.partition_index == self.tp.partition:
                    return data
        if response.throttle_time_ms > 0 and not response.responses:
            level = logging.DEBUG if self._was_held_back else logging.WARNING
            self._was_held_back = True
            seconds = response.throttle_time_ms / 1000
            logger.log(level, "%s holds this client back for %.1f s: above a quota", connection.address, seconds)
            return None
        connection.close()
        raise InvalidResponseError(f"{connection.address} answered a fetch of {self.tp} without it")

    def _connected(self, retry: Retry) -> Connection:
        connection = self._connection
        if self._at_replica and self._asked is None and self._follower() is None:
            # Ask the leader now and then: another follower may be the better one.
            self.close()
            connection = None
        if connection is not None and not connection.closed:
            return connection
        self.close()
        leader = self._cluster.leader_now(self.tp, retry.deadline)
        if ZERO_UUID not in (self._topic_id, leader.topic_id) and leader.topic_id != self._topic_id:
            raise UnknownTopicIdError(f"topic {self.tp.topic} has the id {leader.topic_id}, not {self._topic_id}")
        timeout = min(self._config.connect_timeout, max(retry.left, 0.001))
        follower = self._follower()
        self._at_replica = follower is not None
        self._connection = self._cluster.connect(follower or leader.broker, timeout=timeout)
        self._leader_epoch = leader.epoch
        self._known_id = leader.topic_id
        return self._connection

    def _follower(self) -> Broker | None:
        """Return the follower to fetch from; None for the leader."""
        if self._replica is None or time.monotonic() >= self._replica[1]:
            self._replica = None
            return None
        return self._cluster.metadata([]).brokers.get(self._replica[0])

    def _look_again(self) -> None:
        """After an error, forget the connection and the metadata: the leader or its epoch may have changed."""
        self.close()
        self._replica = None
        self._cluster.forget([self.tp.topic])

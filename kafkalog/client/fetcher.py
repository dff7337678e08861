"""Record bytes of one partition, from its leader.

No fetch session (KIP-227): one partition a request has nothing to leave out. Topics go by name, so at most Fetch 12.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kafkalog.protocol.errors import OffsetOutOfRangeError, error_for
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkalog.records.any_format import HEADER_SIZES
from kafkalog.records.batch import LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, MAGIC, MAGIC_AT
from kafkalog.records.message_set import MIN_ENTRY_SIZE

from .closing import Closing
from .cluster import Cluster
from .config import ClientConfig
from .connection import Connection
from .errors import ClientError, ClientTimeoutError, ConnectionFailedError, InvalidResponseError
from .retry import Retry
from .types import READ_UNCOMMITTED, TopicPartition

_log = logging.getLogger(__name__)

MIN_VERSION = 4
"""Fetch before version 4 converts records to the formats before record batch v2."""
MAX_VERSION = 12
_START = Struct(">qi")
_INT32 = Struct(">i")
_NOTHING = memoryview(b"")


class FetchedChunk(NamedTuple):
    """What one fetch brought.

    ``records``: whole record batches as the log holds them, be they messages of formats v0 and v1, the first of which
    may begin before the offset asked for, and perhaps a piece of one more; a view of a buffer of its own. ``aborted``:
    (producer id, first offset) of aborted transactions in it, for read_committed. Offsets are -1 where the broker does
    not tell them.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]

    def next_offset(self, offset: int) -> int:
        """Where to fetch next after these records, which were fetched from ``offset``: after the last whole batch."""
        buf, end, pos = self.records, len(self.records), 0
        while end - pos >= MIN_ENTRY_SIZE:
            base_offset, batch_length = _START.unpack_from(buf, pos)
            size, magic = LOG_OVERHEAD + batch_length, buf[pos + MAGIC_AT]
            if magic > MAGIC or not HEADER_SIZES[magic] <= size <= end - pos:
                break
            delta = _INT32.unpack_from(buf, pos + LAST_OFFSET_DELTA_AT)[0] if magic == MAGIC else 0
            offset = max(offset, base_offset + delta + 1)
            pos += size
        return offset


def fetch_request(
    partitions: Iterable[tuple[TopicPartition, int, int]],
    config: ClientConfig,
    *,
    max_bytes: int,
    partition_max_bytes: int,
    isolation_level: int,
    max_wait: float | None = None,
) -> FetchRequest:
    """A request without a session for (partition, offset, leader epoch), in this order. ``max_wait`` in seconds."""
    topics: dict[str, FetchTopic] = {}
    for tp, offset, epoch in partitions:
        topic = topics.setdefault(tp.topic, FetchTopic(topic=tp.topic))
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=round((config.fetch_max_wait if max_wait is None else max_wait) * 1000),
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=list(topics.values()),
    )


def read_partition(tp: TopicPartition, data: PartitionData, offset: int) -> FetchedChunk:
    """What a response has of a partition that was fetched from ``offset``; raises the error that it reports."""
    if data.error_code:
        where = f"partition {tp} at offset {offset}"
        error = error_for(data.error_code)
        if isinstance(error, OffsetOutOfRangeError) and data.log_start_offset >= 0:
            where += f", whose log begins at {data.log_start_offset}"
        raise type(error)(f"{where}: {error.message}")
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    records: memoryview = _NOTHING if data.records is None else data.records
    if len(records) and (
        len(records) < _START.size or not 0 <= _START.unpack_from(records)[1] <= len(records) - LOG_OVERHEAD
    ):
        # Since Fetch 3 the first batch comes in whole, whatever its size. Without this check a reader would ask for it
        # for ever.
        raise InvalidResponseError(f"{tp} at offset {offset}: a response of {len(records)} bytes with no whole batch")
    return FetchedChunk(records, data.high_watermark, data.last_stable_offset, data.log_start_offset, aborted)


class PartitionFetcher(Closing):
    """Fetches of one partition over a connection of its own, to whoever leads the partition at the time.

    ``max_bytes`` of one fetch; the first batch comes in whole even where it is larger. ``max_wait``: seconds that the
    broker waits for ``fetch.min.bytes`` (``fetch.max.wait.ms`` unless given). Not safe for several threads at once, but
    independent of what other threads do with the cluster.
    """

    def __init__(
        self,
        cluster: Cluster,
        tp: TopicPartition,
        *,
        max_bytes: int | None = None,
        isolation_level: int = READ_UNCOMMITTED,
        max_wait: float | None = None,
    ) -> None:
        config = cluster.config
        self.tp = TopicPartition(*tp)
        self._cluster = cluster
        self._config = config
        self._max_bytes = config.fetch_max_bytes if max_bytes is None else max_bytes
        self._isolation_level = isolation_level
        self._max_wait = config.fetch_max_wait if max_wait is None else max_wait
        self._connection: Connection | None = None
        self._leader_epoch = -1
        self._asked: int | None = None
        self._is_patient = True
        self._was_held_back = False
        self._stopped = False

    def fetch(self, offset: int, *, deadline: float | None = None) -> FetchedChunk:
        """Record batches from ``offset`` on; none where nothing is written in ``max_wait``.

        Follows the partition to a new leader. Raises OffsetOutOfRangeError, any other error that the leader reports and
        that trying again does not help against, ClientTimeoutError after ``deadline`` (``time.monotonic``;
        ``default.api.timeout.ms`` from now unless given, and then time for which the leader holds the client back,
        because it is above a quota, does not count).
        """
        retry = Retry(self._config, deadline)
        self._is_patient = deadline is None
        return retry.run(lambda: self._fetch_once(offset, retry), lambda error: self._look_again())

    def prefetch(self, offset: int) -> None:
        """Ask for what the next ``fetch(offset)`` will return, and return at once.

        A later ``fetch`` of another offset throws the answer away. Nothing happens where the leader is not connected.
        """
        connection = self._connection
        if connection is None or connection.closed or self._asked is not None:
            return
        try:
            self._send(connection, offset)
        except (ConnectionFailedError, ClientTimeoutError):
            # The connection is closed now, and the next fetch makes a new one.
            self._asked = None

    def stop(self) -> None:
        """Have a fetch that another thread is waiting for fail with ClientError, and every later one."""
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

    def _fetch_once(self, offset: int, retry: Retry) -> FetchedChunk:
        self._check_not_stopped()
        connection = self._connected(retry)
        # Perhaps it was not there yet when it was to be interrupted.
        self._check_not_stopped()
        if self._asked is not None and self._asked != offset:
            self._receive(connection, retry)
        while True:
            if self._asked is None:
                self._send(connection, offset)
            data = self._receive(connection, retry)
            if data is not None:
                return read_partition(self.tp, data, offset)

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
        )
        connection.send(request, min_version=MIN_VERSION, max_version=MAX_VERSION)
        self._asked = offset

    def _receive(self, connection: Connection, retry: Retry) -> PartitionData | None:
        """The partition's part of the answer; None where the client is above a quota, and is to ask again."""
        self._asked = None
        # However near the deadline is, a leader may take as long to answer as it was told to wait for records, and the
        # time for which it has said that it will serve nothing is nobody's fault.
        held_back = max(connection.serves_at - time.monotonic(), 0.0)
        if self._is_patient:
            retry.deadline += held_back
        patience = max(min(self._config.request_timeout + held_back, retry.left), 0.001)
        response: FetchResponse = connection.receive(timeout=patience + self._max_wait)
        if response.error_code:
            raise error_for(response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                if topic.topic == self.tp.topic and data.partition_index == self.tp.partition:
                    return data
        if response.throttle_time_ms > 0 and not response.responses:
            level = logging.DEBUG if self._was_held_back else logging.WARNING
            self._was_held_back = True
            seconds = response.throttle_time_ms / 1000
            _log.log(level, "%s holds this client back for %.1f s: above a quota", connection.address, seconds)
            return None
        connection.close()
        raise InvalidResponseError(f"{connection.address} answered a fetch of {self.tp} without it")

    def _connected(self, retry: Retry) -> Connection:
        connection = self._connection
        if connection is not None and not connection.closed and not (connection.expired and self._asked is None):
            return connection
        self.close()
        leader = self._cluster.leader_now(self.tp, retry.deadline)
        timeout = min(self._config.connect_timeout, max(retry.left, 0.001))
        self._connection = self._cluster.connect(leader.broker, timeout=timeout)
        self._leader_epoch = leader.epoch
        return self._connection

    def _look_again(self) -> None:
        """After an error: the leader, its epoch or its connection may be other than they were."""
        self.close()
        self._cluster.forget([self.tp.topic])

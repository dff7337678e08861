"""Fetch by offset and size, as Kafka's first consumers did: one call returns one message set of one partition.

Kafka 0.7 to 0.10 called it SimpleConsumer. Use it where a program itself decides each fetch: its offset, its size and
its version; for example to read old logs as a program for Kafka 0.8 did. To read records of given partitions, use
`SimpleConsumer` (`simple_consumer`), which follows positions by itself. To share topics among members of a group, or to
commit offsets, use `kafkalog.client.consumer.Consumer`.

A message set may end within a message; the next fetch returns that message. Up to Fetch 2 a broker sends no more than
the requested size, so a larger message never comes completely: the consumer then asks again for twice as much, up to
`max_fetch_size`. Since Fetch 3 (KIP-74) the first batch is always whole.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientError, InvalidResponseError, about
from kafkalog.client.fetch.decode import naming_bound
from kafkalog.client.network.connection import Connection
from kafkalog.client.retry import Retry
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import KafkaError, error_for
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkalog.records.any_format import decode_any, iter_any_headers, timestamp_type
from kafkalog.records.batch import LOG_OVERHEAD, MAGIC
from kafkalog.records.compression import DEFAULT_MAX_SIZE

logger = logging.getLogger(__name__)

CUT_UP_TO = 2
"""The last version of Fetch whose answers are never larger than the requested size."""
NEWEST = 12
"""Later versions name topics by their ids."""
FETCH_SIZE = 1 << 20
MAX_FETCH_SIZE = 64 << 20
_OFFSETS_BEFORE = 0
"""The version of ListOffsets that answers with the first offsets of segments."""


class MessageSizeTooLargeError(ClientError):
    """A message is larger than the consumer may fetch; the text says how large, and which option to raise."""


class MessageSet:
    """The answer to one fetch of one partition.

    Attributes:
        data: Batches or messages as the log holds them. The first one may begin before the requested offset, and the
            last one may be cut off.
        error: The error that the broker reports of the partition, or None.
        high_watermark: The offset up to which consumers may read; -1 where the broker reports an error.
        fetch_size: The requested size in bytes, after it has grown.
        valid_bytes: The size of the whole messages; the bytes after them are the beginning of another one. (The name is
            that of Kafka 0.7.)
        next_offset: The offset to fetch next.
    """

    def __init__(
        self,
        tp: TopicPartition,
        offset: int,
        data: memoryview,
        fetched: PartitionData,
        size: int,
        max_batch: int = DEFAULT_MAX_SIZE,
    ) -> None:
        self._tp = tp
        self.offset = offset
        self.data = data
        self.error: KafkaError | None = error_for(fetched.error_code) if fetched.error_code else None
        self.high_watermark = fetched.high_watermark
        self.fetch_size = size
        whole = list(iter_any_headers(data))
        self.valid_bytes = whole[-1][0] + whole[-1][1].size if whole else 0
        self.next_offset = max(offset, whole[-1][1].next_offset) if whole else offset
        self._whole = whole
        self._max_batch = max_batch

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield the records from the requested offset on, without transaction markers.

        Raises:
            RecordsError: The next bytes are not a record batch.
        """
        for position, header in self._whole:
            if header.magic == MAGIC and header.is_control:
                continue
            kind = max(timestamp_type(header), 0)
            with naming_bound():
                _, records = decode_any(self.data, position, max_size=self._max_batch)
            for each in records:
                if each.offset >= self.offset:
                    yield ConsumerRecord(
                        *self._tp, each.offset, each.timestamp, kind, each.key, each.value, each.headers
                    )

    def raise_error(self) -> MessageSet:
        """Return this message set; raise the error instead, where the broker reports one."""
        if self.error is not None:
            raise type(self.error)(f"partition {self._tp} at offset {self.offset}: {self.error.message}")
        return self


class LowLevelConsumer(Closing):
    """Fetch message sets by offset and size; the module says when to use it. Not safe for several threads at once.

    Args:
        config: The client's configuration.
        fetch_size: The bytes of a fetch that does not give a size (Kafka 0.8's `fetch.message.max.bytes`).
        max_fetch_size: The size up to which a fetch grows for a message that does not fit.
        max_version: The newest version of Fetch to use; 2 or less for message sets that are cut at the fetch size.
        cluster: Connections to use; unless given, the consumer opens its own.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        fetch_size: int = FETCH_SIZE,
        max_fetch_size: int = MAX_FETCH_SIZE,
        max_version: int = NEWEST,
        cluster: Cluster | None = None,
    ) -> None:
        if not 0 < fetch_size <= max_fetch_size:
            raise ValueError(f"fetch_size={fetch_size}: must be from 1 to max_fetch_size={max_fetch_size}")
        if not 0 <= max_version <= NEWEST:
            raise ValueError(f"max_version={max_version}: must be from 0 to {NEWEST}")
        self._config = config
        self._own_cluster = cluster is None
        self._cluster = cluster or Cluster(config)
        self._fetch_size = fetch_size
        self._max_fetch_size = max_fetch_size
        self._max_version = max_version
        self._connections: dict[int, Connection] = {}

    def fetch(self, topic: str, partition: int, offset: int, fetch_size: int | None = None) -> MessageSet:
        """Fetch the messages from `offset` on, in `fetch_size` bytes, or more where the first one needs more.

        The set is empty where no message comes within `fetch.max.wait.ms`. An error of the partition is not raised;
        it is the set's `error`. The consumer reconnects by itself, and follows a moved leader.

        Raises:
            ValueError: `fetch_size` is less than 1.
            MessageSizeTooLargeError: The message at `offset` does not fit in `max_fetch_size`.
            ClientTimeoutError: No leader answered within `default.api.timeout.ms`.
        """
        tp = TopicPartition(topic, partition)
        size = self._fetch_size if fetch_size is None else fetch_size
        if size < 1:
            raise ValueError(f"fetch_size={size}: must be from 1 to max_fetch_size={self._max_fetch_size}")
        while True:
            found = self._fetch(tp, offset, size)
            if found.error is not None or found.valid_bytes:
                return found
            # Apache Kafka sends nothing where it would have to convert a batch that does not fit.
            is_cut = self._max_version <= CUT_UP_TO and offset < found.high_watermark
            if not len(found) and not is_cut:
                return found
            size = self._grown(tp, offset, size, found.data)

    def _grown(self, tp: TopicPartition, offset: int, size: int, piece: memoryview) -> int:
        """Return the next fetch size, where only `piece` of a message has come."""
        needed = size + 1
        if len(piece) >= LOG_OVERHEAD:
            needed = max(needed, LOG_OVERHEAD + int.from_bytes(piece[8:LOG_OVERHEAD], "big", signed=True))
        if needed > self._max_fetch_size:
            raise MessageSizeTooLargeError(
                f"the message at offset {offset} of {tp} has {needed} bytes or more and max_fetch_size is "
                f"{self._max_fetch_size}: raise max_fetch_size"
            )
        while size < needed:
            size *= 2
        return min(size, self._max_fetch_size)

    def messages(self, topic: str, partition: int, offset: int) -> Iterator[ConsumerRecord]:
        """Yield all records from `offset` up to the high watermark of the last fetch, fetch after fetch.

        Raises:
            ValueError, MessageSizeTooLargeError, ClientTimeoutError: `fetch` raises them.
            KafkaError: The broker reports it.
            RecordsError: The next bytes are not a record batch.
        """
        while True:
            found = self.fetch(topic, partition, offset).raise_error()
            yield from found
            if found.next_offset <= offset or found.next_offset >= found.high_watermark:
                return
            offset = found.next_offset

    def get_offsets_before(self, topic: str, partition: int, timestamp: int, max_offsets: int = 1) -> list[int]:
        """Return the first offsets of segments that were last changed at or before `timestamp` (ms), newest first.

        -1 (latest) and -2 (earliest) are as in ListOffsets; with -1 the end of the log comes first.

        Raises:
            UnsupportedVersionError: The broker does not know ListOffsets 0.
            KafkaError: The broker reports another error.
        """
        tp = TopicPartition(topic, partition)
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, max_num_offsets=max_offsets)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])

        def ask() -> list[int]:
            response: ListOffsetsResponse = self._connected(tp).request(request, max_version=_OFFSETS_BEFORE)
            (answer,) = response.topics[0].partitions
            if answer.error_code:
                raise about(answer.error_code, f"partition {tp}")
            return list(answer.old_style_offsets)

        return Retry(self._config, None).run(ask, lambda error: self._look_again(tp))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._own_cluster:
            self._cluster.close()

    def _fetch(self, tp: TopicPartition, offset: int, size: int) -> MessageSet:
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=round(self._config.fetch_max_wait * 1000),
            min_bytes=1,
            max_bytes=size,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=tp.topic,
                    partitions=[FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=size)],
                )
            ],
        )

        def ask() -> MessageSet:
            while True:
                connection = self._connected(tp)
                held_back = max(connection.serves_at - time.monotonic(), 0.0)
                response: FetchResponse = connection.request(
                    request,
                    max_version=self._max_version,
                    timeout=self._config.request_timeout + self._config.fetch_max_wait + held_back,
                )
                if response.error_code:
                    raise error_for(response.error_code)
                if response.responses:
                    break
                # The response is empty where the client is above a quota. Fetch 0 cannot say for how long.
                logger.info("%s holds this client back: above a quota", connection.address)
                time.sleep(self._config.retry_backoff)
            for topic in response.responses:
                for data in topic.partitions:
                    if topic.topic == tp.topic and data.partition_index == tp.partition:
                        return _message_set(tp, offset, data, size, self._config.max_batch_bytes)
            raise InvalidResponseError(f"a fetch of {tp} was answered without it")

        return Retry(self._config, None).run(ask, lambda error: self._look_again(tp))

    def _connected(self, tp: TopicPartition) -> Connection:
        leader = self._cluster.leader_now(tp)
        connection = self._connections.get(leader.broker.node_id)
        if connection is None or connection.closed:
            connection = self._connections[leader.broker.node_id] = self._cluster.connect(leader.broker)
        return connection

    def _look_again(self, tp: TopicPartition) -> None:
        """After an error, forget closed connections and old metadata: the leader may have moved."""
        for node_id, connection in list(self._connections.items()):
            if connection.closed:
                del self._connections[node_id]
        self._cluster.forget([tp.topic])


def _message_set(tp: TopicPartition, offset: int, data: PartitionData, size: int, max_batch: int) -> MessageSet:
    if data.error_code:
        error = error_for(data.error_code)
        if error.retriable:
            # The leader has moved; `Retry` asks for the new one.
            raise error
    records = memoryview(b"") if data.records is None else data.records
    return MessageSet(tp, offset, records, data, size, max_batch)

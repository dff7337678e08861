"""Logs of coordinators: append to, and read, an internal topic's partitions that this broker leads.

A write is one record batch, appended at once and so in the order of the calls. It counts once it is replicated: the
high watermark has passed it and, if `flush.messages` requires it, it is on the device. A read covers a whole
partition, in pieces that a worker decodes. A log may be compacted, its batches compressed, and Apache Kafka may have
written them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from broker.controller.decisions.planning import NewTopic
from broker.controller.topics import TopicController
from broker.coordinator.partition_count import CountedPartitions, ReadCount
from broker.coordinator.state_topic import StateTopic, partition_of
from broker.log.append.append_info import AppendInfo
from broker.log.append.legacy.message_sets import prepare_set
from broker.log.append.validation import Origin
from broker.log.index.time_index import NO_TIMESTAMP
from broker.log.log import Log
from broker.metadata.model import PartitionCount, TopicState
from broker.replica.acknowledging.appended import Appended
from broker.replica.acknowledging.waiting import acknowledgement, when_acknowledged
from broker.replica.manager import ReplicaManager
from broker.replica.partition import ACKS_ALL, Partition
from kafkalog.protocol.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafkalog.records.any_format import decode_any, iter_any_headers
from kafkalog.records.batch import MAGIC, Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import RecordsError

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 5_000
"""The time that an append waits for the high watermark unless its caller says, as `offsets.commit.timeout.ms`."""
CREATION_MS = 2_000
"""The longest wait for the leaders of a new topic in a cluster. After it, clients have to ask again."""
LOADS_AT_ONCE = 4
"""The most partitions of a topic that a coordinator reads at the same time."""
RETRY_LOAD_MS = 10_000
"""The least time in ms before a coordinator tries again to load a partition."""
MOST_COMPRESSED = 16 << 20
"""The most bytes of a batch, before compression, that is compressed."""
READ_IN_STEPS = 8
"""The number of times that a worker reads missing pages; then the read goes on even if some are missing again."""

_UNAVAILABLE = (UnknownTopicOrPartitionError, NotEnoughReplicasError, NotEnoughReplicasAfterAppendError)
_MOVED = (NotLeaderOrFollowerError, KafkaStorageError)


class StateRecord(NamedTuple):
    """A record to be appended; a `value` of None is a tombstone."""

    key: bytes
    value: bytes | None


class StateBatch(NamedTuple):
    """A record batch that was read."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    marker: ControlRecordType | None
    """COMMIT or ABORT if the batch ends `producer_id`'s transaction; such a batch has no `records`."""
    records: list[Record]
    """The records, with absolute offsets; compaction may have removed some or all of them."""


class Shortage(NamedTuple):
    """A partition with fewer in-sync replicas than it needs."""

    isr: tuple[int, ...]
    min_insync: int
    """`min.insync.replicas`, or the number of replicas if that is smaller."""


def as_coordinator_error(error: Exception) -> Exception:
    """Return the error of a coordinator whose state could not be stored (Kafka's `GroupMetadataManager`).

    COORDINATOR_NOT_AVAILABLE: the partition cannot be used now. NOT_COORDINATOR: another broker leads it, or its disk
    failed. Other errors are returned unchanged: the record is too large, the producer is fenced, the time is over.
    """
    if isinstance(error, _UNAVAILABLE):
        return CoordinatorNotAvailableError()
    return NotCoordinatorError() if isinstance(error, _MOVED) else error


class StateLog:
    """The log of one coordinator's state. Used on the event loop's thread only.

    Args:
        settings: returns the settings with which the topic is created.
        now_ms: milliseconds since the epoch, the timestamps of records.
        read_count: reads the number of the topic's partitions; None where this broker knows each topic whole.
    """

    def __init__(
        self,
        settings: Callable[[], StateTopic],
        *,
        replicas: ReplicaManager,
        topics: TopicController,
        now_ms: Callable[[], int],
        read_count: ReadCount | None = None,
    ) -> None:
        self._settings = settings
        self._name = settings().name
        self._replicas = replicas
        self._topics = topics
        self._now_ms = now_ms
        self._making: asyncio.Task[int] | None = None
        self._refusal = ""
        """The reason why the topic could not be made when that was tried last."""
        self._counted = CountedPartitions(self._name, lambda: self.state, replicas.runtime.loop, read_count)

    @property
    def topic(self) -> str:
        return self._name

    @property
    def state(self) -> TopicState | None:
        """The topic in the registry: another object after every change, such as a new leader."""
        return self._topics.state(self._name)

    @property
    def partitions(self) -> int | None:
        """Number of partitions of the topic; None if it does not exist, or is not counted yet (`partition_count`)."""
        return self._counted.number

    def count(self, counted: PartitionCount) -> None:
        """Set the number of partitions, as read from ZooKeeper."""
        self._counted.set(counted)

    async def ensure(self) -> int:
        """Create the topic if it does not exist; return its number of partitions.

        Raises:
            CoordinatorNotAvailableError: it cannot be made.
        """
        if self._making is None:
            count = await self._counted.settled(CREATION_MS / 1000)
            if count is not None:
                return count
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        making = self._making
        try:
            # Shielded: the first caller may be cancelled while others wait for the same creation.
            return await asyncio.shield(making)
        finally:
            if making.done() and self._making is making:
                self._making = None

    async def settle(self) -> None:
        """Wait for a creation of the topic that is under way, so that no log is made after the broker has stopped."""
        if self._making is not None:
            await asyncio.wait([self._making])
        await self._counted.close()

    async def _make(self) -> int:
        settings = self._settings()
        new = NewTopic(self._name, settings.partitions, settings.replication_factor, config=settings.config)
        result = (await self._topics.create([new], wait_ms=CREATION_MS))[self._name]
        if isinstance(result, TopicState | TopicAlreadyExistsError | RequestTimedOutError):
            count = await self._counted.settled(CREATION_MS / 1000)
            if count is not None:
                return count
            # In a cluster this broker knows the new topic only when the controller has sent it. The client asks again.
            raise CoordinatorNotAvailableError
        text = str(result)
        # Clients ask again ten times a second, such as while too few brokers are alive.
        logger.log(logging.DEBUG if text == self._refusal else logging.ERROR, "%s cannot be made: %s", self._name, text)
        self._refusal = text
        raise CoordinatorNotAvailableError

    def partition_for(self, key: str) -> int:
        """Return the partition that holds the state of `key`.

        Raises:
            CoordinatorNotAvailableError: there is no topic yet; see `ensure`.
        """
        count = self.partitions
        if count is None:
            raise CoordinatorNotAvailableError
        return partition_of(key, count)

    def leads(self, index: int) -> Partition | None:
        """Return the partition, if this broker leads it and its log can be used."""
        partition = self._replicas.get(self._name, index)
        if partition is None or not partition.is_leader or partition.log.offline is not None:
            return None
        return partition

    def shortage(self, index: int) -> Shortage | None:
        """Return what a partition led here lacks for `min.insync.replicas`, without which nothing is replicated."""
        partition = self.leads(index)
        if partition is None or not partition.is_under_min_isr:
            return None
        return Shortage(tuple(sorted(partition.isr)), partition.effective_min_insync)

    # -- reading

    async def replay(self, index: int, apply: Callable[[list[StateBatch]], T]) -> AsyncIterator[T]:
        """Apply every batch of a partition on a worker, in pieces and in the order of the log; yield each result.

        Batches that are appended meanwhile are read as well: it ends when it reaches the log end offset.

        Raises:
            NotCoordinatorError: the partition is not led here (any more), or its log cannot be read.
            Exception: what `apply` raises.
        """
        workers = self._replicas.runtime.workers
        partition = self.leads(index)
        if partition is None:
            raise NotCoordinatorError
        size = self._settings().load_buffer_bytes
        offset = partition.log.log_start_offset
        try:
            while offset < partition.log.log_end_offset:
                for _ in range(READ_IN_STEPS):
                    work = partition.log.missing(offset, size)
                    if work is None:
                        break
                    await workers.run(work)
                result = partition.log.read(offset, size)
                if not result.slices:
                    # Compaction has removed the last batches: offsets go on, and nothing is left to read.
                    break
                made, following = await workers.run(_decode, result.slices[0].read, offset, apply)
                if self.leads(index) is not partition:
                    raise NotCoordinatorError
                if following <= offset:
                    break
                offset = following
                yield made
        except (KafkaError, RecordsError, OSError) as error:
            if isinstance(error, NotCoordinatorError):
                raise
            logger.error("%s-%d cannot be read at offset %d: %s", self._name, index, offset, error)
            raise NotCoordinatorError from error

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Do work on what was read that would take the event loop too long."""
        return await self._replicas.runtime.workers.run(work)

    # -- appending

    def write(
        self,
        index: int,
        records: Iterable[StateRecord],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        transactional: bool = False,
        batch: bytearray | None = None,
        acks: int = ACKS_ALL,
    ) -> Appended:
        """Append one batch of at least one record to a partition, now.

        Args:
            producer_id, producer_epoch, transactional: for records of a transaction (TxnOffsetCommit).
            batch: these records as `encoded` has returned them for the same producer, to be appended once.
            acks: `ACKS_LEADER` for records that are appended while too few replicas are in sync, too.

        Raises:
            CoordinatorNotAvailableError, NotCoordinatorError: see `as_coordinator_error`.
            MessageTooLargeError, RecordListTooLargeError: the batch is larger than the partition takes.
            InvalidProducerEpochError: another producer has fenced this one.
        """
        try:
            partition = self._replicas.require(self._name, index)
            now_ms = self._now_ms()
            if batch is None:
                codec = self._settings().codec
                kept = list(records)
                if codec == Codec.NONE and size_of(kept) > self.most_bytes(index):
                    # Check this first: encoding a batch of 100 MB copies it.
                    raise MessageTooLargeError
                batch = _encode(kept, now_ms, codec, producer_id, producer_epoch, transactional=transactional)
            if partition.log.config.message_format < MAGIC:
                label = f"{self._name}-{index}"
                prepared = prepare_set(memoryview(batch), partition.log.config, now_ms, Origin.COORDINATOR, label)
                return self._replicas.append_legacy(
                    partition, prepared, len(batch), acks, now_ms, origin=Origin.COORDINATOR
                )
            return self._replicas.append(
                partition, memoryview(batch), len(batch), acks, now_ms, origin=Origin.COORDINATOR
            )
        except Exception as error:
            told = as_coordinator_error(error)
            raise told from (None if told is error else error)

    async def encoded(
        self, index: int, records: Sequence[StateRecord], producer: tuple[int, int] | None = None
    ) -> bytearray | None:
        """Encode many records as a batch for `write`, on a worker.

        Return None where `write` will not take the records, and is to say why.

        Args:
            producer: id and epoch of the producer in whose transaction the records are.
        """
        try:
            most_bytes = self.most_bytes(index)
        except KafkaError:
            return None
        if size_of(records) > most_bytes:
            return None
        now_ms, codec = self._now_ms(), self._settings().codec
        producer_id, epoch = producer or (-1, -1)
        return await self.on_worker(
            partial(_encode, records, now_ms, codec, producer_id, epoch, transactional=producer is not None)
        )

    def most_bytes(self, index: int) -> int:
        """Return how many bytes the keys and values of one batch may have, as far as that is known beforehand.

        Raises:
            NotLeaderOrFollowerError, UnknownTopicOrPartitionError: the partition is not led here.
        """
        config = self._replicas.require(self._name, index).log.config
        # The size of a compressed batch is known only once it is compressed.
        return config.max_message_bytes if self._settings().codec == Codec.NONE else MOST_COMPRESSED

    def largest_batch(self, index: int) -> int:
        """Return the `max.message.bytes` of a partition, for the whole batch as it is stored.

        Raises:
            NotLeaderOrFollowerError, UnknownTopicOrPartitionError: the partition is not led here.
        """
        return self._replicas.require(self._name, index).log.config.max_message_bytes

    def acknowledged(self, written: Appended, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> asyncio.Future[int]:
        """Return a future of the last offset of the written batch, done once that is replicated, maybe already.

        Its errors: NotCoordinatorError; CoordinatorNotAvailableError when too few replicas are in sync by then;
        RequestTimedOutError after `timeout_ms`. After the last two the records are in the log all the same.
        """
        return acknowledgement(self._replicas.produce_purgatory, written, timeout_ms, as_coordinator_error)

    def when_replicated(self, written: Appended, then: Callable[[int], None]) -> None:
        """Call `then` with the last offset of the written batch once it is replicated, which may be now.

        There is no timeout. It is never called if this broker stops leading the partition before that, or its disk
        fails.
        """

        def done(code: ErrorCode) -> None:
            # The high watermark also passes batches with too few in-sync replicas: every later read of the log finds
            # them.
            if code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
                then(written.last_offset)

        when_acknowledged(self._replicas.produce_purgatory, written, done)

    def when_end_is_replicated(self, index: int, then: Callable[[], None]) -> None:
        """Call `then` once every record now in the log of a partition led here is replicated, which may be now.

        There is no timeout. It is never called if this broker stops leading the partition before that, or its disk
        fails.
        """
        partition = self.leads(index)
        if partition is None:
            return
        last = partition.log.log_end_offset - 1
        info = AppendInfo(last, last, NO_TIMESTAMP, NO_TIMESTAMP, partition.log.log_start_offset, duplicate=False)
        written = Appended(partition, info, partition.leader_epoch, ACKS_ALL, sync=False)
        self.when_replicated(written, lambda _: then())

    def append(
        self, index: int, records: Iterable[StateRecord], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> asyncio.Future[int]:
        """Call `write` and `acknowledged`; an error of `write` becomes the future's error."""
        try:
            return self.acknowledged(self.write(index, records), timeout_ms)
        except Exception as error:
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            future.set_exception(error)
            return future


def read_batches(log: Log, piece_bytes: int) -> Iterator[list[StateBatch]]:
    """Yield every batch of a log, in pieces. It blocks, and is for a log to which nothing is appended yet.

    Raises:
        KafkaError, RecordsError, OSError: the log cannot be read.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, piece_bytes)
        if not result.slices:
            return
        batches, following = _decode(result.slices[0].read, offset, list)
        if following <= offset:
            return
        offset = following
        yield batches


def size_of(records: Iterable[Record | StateRecord]) -> int:
    """Return how many bytes keys and values have together."""
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


def _encode(
    records: Iterable[StateRecord],
    now_ms: int,
    codec: int,
    producer_id: int,
    producer_epoch: int,
    *,
    transactional: bool,
) -> bytearray:
    """Return records as one batch. It may run on a worker."""
    return encode_batch(
        [Record(offset, now_ms, record.key, record.value) for offset, record in enumerate(records)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1 if producer_id < 0 else 0,
        is_transactional=transactional,
    )


def _decode(read: Callable[[], bytes], first: int, apply: Callable[[list[StateBatch]], T]) -> tuple[T, int]:
    """Apply the whole batches of a slice from offset `first` on; return the result and the offset after them.

    Call it on a worker.
    """
    data = read()
    batches = []
    following = first
    for position, header in iter_any_headers(data):
        header, records = decode_any(memoryview(data)[position : position + header.size])
        following = header.last_offset + 1
        if following <= first:
            continue
        marker = None
        if header.is_control:
            kind = parse_control_type(records[0].key) if records else None
            if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                continue
            marker, records = kind, []
        elif records and records[0].offset < first:
            records = [record for record in records if record.offset >= first]
        batches.append(
            StateBatch(
                header.base_offset,
                header.last_offset,
                header.producer_id,
                header.producer_epoch,
                header.is_transactional,
                marker,
                records,
            )
        )
    return apply(batches), following

"""Produce (key 0): append record batches, one per partition.

Checks in Kafka's order: acks, then for each partition that it exists, is led here, and that its batch is valid. With
acks=1 the response follows the append; with acks=all it waits until the high watermark has passed the batch, for at
most ``timeout_ms``; with acks=0 there is none, and an error closes the connection so that the producer looks again.

Since version 3 records are one batch of message format v2; before, message sets of v0 (0 and 1) or v1 (2). What is not
in the format that its topic stores is converted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.log.config import LogConfig
from broker.log.message_sets import PreparedSet, is_old, prepare_set
from broker.log.validation import Origin, needs_recompression, recompress_ahead
from broker.replica.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Appended, Partition
from broker.replica.purgatory import DelayedOperation
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidRequiredAcksError,
    InvalidTopicError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    TransactionalIdAuthorizationFailedError,
)
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalog.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from kafkalog.records.compression import Codec
from kafkalog.records.errors import InvalidRecordError, RecordsError, UnsupportedCompressionTypeError
from kafkalog.records.message_set import MIN_ENTRY_SIZE
from kafkalog.storage.topics import INTERNAL_TOPICS

logger = logging.getLogger("kafkalog.broker.api")

ZSTD_SINCE = 7
"""Producers that know zstd speak this version (KIP-110)."""
BATCH_SINCE = 3
"""From this version on records are exactly one batch of message format v2."""
CODEC_AT = ATTRIBUTES_AT + 1
OLD_CODEC_AT = MAGIC_AT + 1
"""Where a message of format v0 or v1 has its codec."""
LARGE_BATCH = 16 * 1024
"""Bytes from which on a batch is compressed or converted on a worker; one to be decompressed always is."""
Ahead = tuple[str, PartitionProduceData, LogConfig]
"""Records for a worker to do what it can with before they are appended, and their topic."""
Done = dict[int, PreparedSet | Exception | None]
"""What workers made of message sets, by the ``id`` of their PartitionProduceData."""
_NOTHING_DONE: Done = {}
ADMIN_CLIENT_ID = "__admin_client"
"""The client id of those who may produce into internal topics, as in Kafka."""
ABORTABLE_SINCE = 11
"""Producers that know TRANSACTION_ABORTABLE (KIP-890)."""
LEADER_SINCE = 10
"""Responses name the partition's leader where it is not this broker (KIP-951)."""
_UNVERIFIED = (
    ConcurrentTransactionsError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError,
)  # fmt: skip
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
EXPECTED_ERRORS = TOO_LARGE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}  # fmt: skip
"""What happens to correct producers in time; not counted as failures, as in Kafka."""


class Pending:
    """An appended batch that is not acknowledged yet, and the response that it will have."""

    __slots__ = ("_appended", "_with_leader", "result")

    def __init__(self, appended: Appended, result: PartitionProduceResponse, *, with_leader: bool) -> None:
        self._appended = appended
        self._with_leader = with_leader
        self.result = result

    @property
    def key(self) -> tuple[str, int]:
        return self._appended.partition.key

    def settle(self) -> bool:
        """Whether the batch is acknowledged, or has failed, by now."""
        code = self._appended.partition.acknowledged(self._appended)
        if code is None:
            return False
        if code is not ErrorCode.NONE:
            self.fail(code)
        return True

    def fail(self, code: ErrorCode) -> None:
        self.result.error_code = code
        self.result.base_offset = -1
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._with_leader:
            _fill_leader(self.result, self._appended.partition)


class DelayedProduce(DelayedOperation):
    """A produce that waits for its high watermarks (acks=all) or for an fsync (``flush.messages``)."""

    __slots__ = ("_request", "_response", "_waiting")

    def __init__(self, request: Request, response: ProduceResponse, waiting: list[Pending]) -> None:
        super().__init__()
        self._request = request
        self._response = response
        self._waiting = waiting

    def try_complete(self) -> bool:
        self._waiting = [pending for pending in self._waiting if not pending.settle()]
        if self._waiting:
            return False
        _reply(self._request, self._response)
        return True

    def expire(self) -> None:
        for pending in self._waiting:
            pending.fail(ErrorCode.REQUEST_TIMED_OUT)
        _reply(self._request, self._response)

    def fail(self, error: Exception) -> None:
        self._request.drop()


def handle_produce(request: Request) -> Awaitable[None] | None:
    large = _for_workers(request)
    if large:
        # Before anything else runs: the connection goes on receiving into the buffer that the records lie in.
        request.connection.keep_memory()
        for topic in request.message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
        return _work_and_serve(request, large)
    _serve(request, _NOTHING_DONE)
    return None


def _for_workers(request: Request) -> list[Ahead]:
    """Records that take long: their codec is to be changed, for ``compression.type`` names another, or their format."""
    found = []
    for topic in request.message.topic_data:
        for data in topic.partition_data:
            partition = request.broker.replicas.get(topic.name, data.index)
            records = data.records
            if partition is None or records is None:
                continue
            config = partition.log.config
            if config.message_format < MAGIC or (len(records) > MAGIC_AT and records[MAGIC_AT] < MAGIC):
                if _is_allowed(request, records) and _takes_long(records):
                    found.append((topic.name, data, config))
                continue
            if config.compression_type == "producer":
                continue
            codec = data.records[CODEC_AT] & CODEC_MASK if len(data.records) > CODEC_AT else Codec.NONE
            if request.version < ZSTD_SINCE and (codec == Codec.ZSTD or config.compression_type == "zstd"):
                # What the client sent is judged by its codec, and must be seen as it came.
                continue
            if (codec or len(data.records) >= LARGE_BATCH) and needs_recompression(data.records, config):
                found.append((topic.name, data, config))
    return found


def _is_allowed(request: Request, records: memoryview) -> bool:
    """Whether the version may carry such records; others must be seen as they came."""
    try:
        _check_version(request.version, records)
    except RecordsError:
        return False
    return True


def _takes_long(records: memoryview) -> bool:
    if len(records) >= LARGE_BATCH:
        return True
    at = CODEC_AT if len(records) > CODEC_AT and records[MAGIC_AT] >= MAGIC else OLD_CODEC_AT
    return len(records) > at and bool(records[at] & CODEC_MASK)


async def _work_and_serve(request: Request, large: list[Ahead]) -> None:
    try:
        _serve(request, await _work(request, large))
    finally:
        request.connection.free_memory()


async def _work(request: Request, large: list[Ahead]) -> Done:
    broker = request.broker
    done: Done = {}
    for topic, data, config in large:
        records = data.records
        if not is_old(records, config):
            data.records = await broker.workers.run(recompress_ahead, records, config)
            continue
        try:
            done[id(data)] = await broker.workers.run(
                prepare_set, records, config, broker.now_ms(), Origin.CLIENT, f"{topic}-{data.index}"
            )
        except Exception as error:
            done[id(data)] = error
    return done


def _serve(request: Request, done: Done) -> None:
    message: ProduceRequest = request.message
    acks = message.acks
    broker = request.broker
    now_ms = broker.now_ms()
    waiting: list[Pending] = []
    failed = False
    topics = []
    for topic in message.topic_data:
        results = []
        for data in topic.partition_data:
            result = PartitionProduceResponse(index=data.index, base_offset=-1)
            try:
                pending = _append(request, topic.name, data, done, now_ms, result)
                if pending is not None:
                    waiting.append(pending)
            except Exception as error:
                failed = True
                size = 0 if data.records is None else len(data.records)
                _fill_error(request, topic.name, data.index, result, error, size)
            results.append(result)
        topics.append(TopicProduceResponse(name=topic.name, partition_responses=results))
    if acks == ACKS_NONE:
        if failed:
            logger.info("closing connection from %s: a produce with acks=0 failed", request.connection.peer)
            request.drop()
        else:
            quota = broker.quotas.produce
            request.no_reply(request.quota_wait_ms((quota, request.nbytes), timed=False) if quota.limited else 0)
        return
    response = ProduceResponse(responses=topics)
    if not waiting:
        _reply(request, response)
        return
    operation = DelayedProduce(request, response, waiting)
    if not operation.try_complete():
        request.connection.state = operation
        keys = [pending.key for pending in waiting]
        # Its records are views of memory that is others' from now on.
        request.message = None
        broker.replicas.produce_purgatory.watch(operation, keys, message.timeout_ms / 1000)


def _reply(request: Request, response: ProduceResponse) -> None:
    """Answer at once; what the request used of its client's quotas is waited for after it."""
    quotas = request.broker.quotas
    is_limited = quotas.produce.limited or quotas.request.limited
    request.reply(response, request.quota_wait_ms((quotas.produce, request.nbytes)) if is_limited else 0)


def _append(
    request: Request,
    topic: str,
    data: PartitionProduceData,
    done: Done,
    now_ms: int,
    result: PartitionProduceResponse,
) -> Pending | None:
    """Append one partition's batch; what the acknowledgement has to wait for, if anything."""
    acks = request.message.acks
    if acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        raise InvalidRequiredAcksError(f"acks={acks} is not one of -1, 0 and 1")
    if topic in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopicError(f"Cannot append to internal topic {topic}")
    replicas = request.broker.replicas
    partition = replicas.require(topic, data.index)
    partition.counters.total_produce += 1
    records: memoryview | PreparedSet | None = data.records
    size = 0 if data.records is None else len(data.records)
    if request.version < ZSTD_SINCE or size < MIN_ENTRY_SIZE or data.records[MAGIC_AT] != MAGIC:
        _check_version(request.version, data.records)
        if size < MIN_ENTRY_SIZE:
            records = None
    if done and id(data) in done:
        made = done[id(data)]
        if isinstance(made, Exception):
            raise made
        records = made
    in_transaction = False
    if size >= HEADER_SIZE and data.records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_FLAG and data.records[MAGIC_AT] == MAGIC:
        in_transaction = _admit(request, partition, read_header(data.records))
    appended = replicas.append(partition, records, size, acks, now_ms, in_transaction=in_transaction)
    info = appended.info
    result.base_offset = info.first_offset
    result.log_append_time_ms = info.log_append_time
    result.log_start_offset = info.log_start_offset
    if partition.acknowledged(appended) is not ErrorCode.NONE:
        return Pending(appended, result, with_leader=request.version >= LEADER_SINCE)
    return None


def _admit(request: Request, partition: Partition, header: BatchHeader) -> bool:
    """Whether the transaction of a transactional batch covers the partition.

    Raises:
        TransactionalIdAuthorizationFailedError: the request names no transactional id.
        NotEnoughReplicasError: that is not known now; an error that every producer tries again after.
        KafkaError: it does not; see `Transactions.admit`.
    """
    transactional_id = request.message.transactional_id
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailedError
    if header.producer_id < 0:
        return False
    try:
        request.broker.transactions.admit(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition,
            abortable=request.version >= ABORTABLE_SINCE,
        )
    except _UNVERIFIED as error:
        raise NotEnoughReplicasError(
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.code.name}"
        ) from error
    return True


def _check_version(version: int, records: memoryview | None) -> None:
    """Raises RecordsError for records that a produce request of that version may not carry."""
    if version < BATCH_SINCE:
        # Whatever their format, and be it nothing: Kafka never minded what clients sent in these versions.
        return
    if records is None or len(records) < MIN_ENTRY_SIZE:
        raise RecordsError("Produce requests must have exactly one record batch for each partition")
    if records[MAGIC_AT] < MAGIC:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )
    if version < ZSTD_SINCE and len(records) > CODEC_AT and records[CODEC_AT] & CODEC_MASK == Codec.ZSTD:
        raise UnsupportedCompressionTypeError(
            f"Produce requests before version {ZSTD_SINCE} may not carry batches compressed with zstd"
        )


def _fill_error(
    request: Request, topic: str, index: int, result: PartitionProduceResponse, error: Exception, size: int
) -> None:
    code = error_code(error)
    counters = request.broker.replicas.counters.known(topic)
    if code not in EXPECTED_ERRORS:
        counters.failed_produce += 1
    elif code in TOO_LARGE and size:
        counters.bytes_rejected += size
    logger.debug("produce to %s-%d from client %s failed: %s %s", topic, index, request.client_id, code.name, error)
    result.error_code = code
    result.error_message = error_message(error) if request.version >= 8 else None
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and request.version >= LEADER_SINCE:
        partition = request.broker.replicas.get(topic, index)
        if partition is not None:
            _fill_leader(result, partition)


def _fill_leader(result: PartitionProduceResponse, partition: Partition) -> None:
    result.current_leader.leader_id = partition.leader
    result.current_leader.leader_epoch = partition.leader_epoch


HANDLERS = {ProduceRequest: handle_produce}

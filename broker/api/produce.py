"""Produce (key 0): append record batches, one per partition.

Checks in Kafka's order: acks, then for each partition that it exists, is led here, and that its batch is valid. With
acks=1 the response follows the append; with acks=all it waits until the high watermark has passed the batch, for at
most ``timeout_ms``; with acks=0 there is none, and an error closes the connection so that the producer looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.log.config import LogConfig
from broker.log.validation import needs_recompression, recompress_ahead
from broker.replica.partition import Partition
from broker.replica.purgatory import DelayedOperation
from kafkalog.protocol.errors import ErrorCode, InvalidRequiredAcksError
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalog.records.batch import ATTRIBUTES_AT, CODEC_MASK
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError, UnsupportedCompressionTypeError

logger = logging.getLogger("kafkalog.broker.api")

ZSTD_SINCE = 7
"""Producers that know zstd speak this version (KIP-110)."""
CODEC_AT = ATTRIBUTES_AT + 1
LARGE_BATCH = 16 * 1024
"""Bytes from which on a batch is compressed on a worker; one to be decompressed always is."""
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
EXPECTED_ERRORS = TOO_LARGE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}  # fmt: skip
"""What happens to correct producers in time; not counted as failures, as in Kafka."""


class Pending:
    """An appended batch that may not be acknowledged yet."""

    __slots__ = ("_end", "_partition", "_replicated", "_synced", "result")

    def __init__(
        self,
        partition: Partition,
        end: int,
        result: PartitionProduceResponse,
        *,
        replicated: bool,
        synced: bool,
    ) -> None:
        self._partition = partition
        self._end = end
        self._replicated = replicated
        self._synced = synced
        self.result = result

    @property
    def key(self) -> tuple[str, int]:
        return self._partition.key

    def settle(self, request: Request) -> bool:
        """Whether the batch is acknowledged, or has failed, by now."""
        partition = self._partition
        if request.broker.replicas.get(*partition.key) is not partition:
            self.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return True
        if self._synced and partition.log.recovery_point < self._end:
            if partition.log.offline is None:
                return False
            self.fail(ErrorCode.KAFKA_STORAGE_ERROR)
            return True
        return not self._replicated or partition.high_watermark >= self._end

    def fail(self, code: ErrorCode) -> None:
        self.result.error_code = code
        self.result.base_offset = -1


class DelayedProduce(DelayedOperation):
    """A produce that waits for its high watermarks (acks=all) or for an fsync (``flush.messages``)."""

    __slots__ = ("_request", "_response", "_waiting")

    def __init__(self, request: Request, response: ProduceResponse, waiting: list[Pending]) -> None:
        super().__init__()
        self._request = request
        self._response = response
        self._waiting = waiting

    def try_complete(self) -> bool:
        self._waiting = [pending for pending in self._waiting if not pending.settle(self._request)]
        if self._waiting:
            return False
        self._request.reply(self._response)
        return True

    def expire(self) -> None:
        for pending in self._waiting:
            pending.fail(ErrorCode.REQUEST_TIMED_OUT)
        self._request.reply(self._response)


def handle_produce(request: Request) -> Awaitable[None] | None:
    large = _to_recompress(request)
    if large:
        # Before anything else runs: the connection goes on receiving into the buffer that the records lie in.
        for topic in request.message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
        return _recompress_and_serve(request, large)
    _serve(request)
    return None


def _to_recompress(request: Request) -> list[tuple[PartitionProduceData, LogConfig]]:
    """Batches whose codec is to be changed, for ``compression.type`` names another, and that take long."""
    found = []
    for topic in request.message.topic_data:
        for data in topic.partition_data:
            partition = request.broker.replicas.get(topic.name, data.index)
            if partition is None or partition.log.config.compression_type == "producer" or data.records is None:
                continue
            config = partition.log.config
            codec = data.records[CODEC_AT] & CODEC_MASK if len(data.records) > CODEC_AT else Codec.NONE
            if request.version < ZSTD_SINCE and (codec == Codec.ZSTD or config.compression_type == "zstd"):
                # What the client sent is judged by its codec, and must be seen as it came.
                continue
            if (codec or len(data.records) >= LARGE_BATCH) and needs_recompression(data.records, config):
                found.append((data, config))
    return found


async def _recompress_and_serve(request: Request, large: list[tuple[PartitionProduceData, LogConfig]]) -> None:
    for data, config in large:
        data.records = await request.broker.loop.run_in_executor(None, recompress_ahead, data.records, config)
    _serve(request)


def _serve(request: Request) -> None:
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
                pending = _append(request, topic.name, data, acks, now_ms, result)
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
            request.no_reply()
        return
    response = ProduceResponse(responses=topics)
    if not waiting:
        request.reply(response)
        return
    operation = DelayedProduce(request, response, waiting)
    if not operation.try_complete():
        request.connection.state = operation
        keys = [pending.key for pending in waiting]
        broker.replicas.produce_purgatory.watch(operation, keys, message.timeout_ms / 1000)


def _append(
    request: Request,
    topic: str,
    data: PartitionProduceData,
    acks: int,
    now_ms: int,
    result: PartitionProduceResponse,
) -> Pending | None:
    """Append one partition's batch; what the acknowledgement has to wait for, if anything."""
    if acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        raise InvalidRequiredAcksError(f"acks={acks} is not one of -1, 0 and 1")
    replicas = request.broker.replicas
    partition = replicas.require(topic, data.index)
    partition.counters.total_produce += 1
    records = data.records
    if records is None or len(records) == 0:
        raise RecordsError("Produce requests must have exactly one record batch for each partition")
    if request.version < ZSTD_SINCE and len(records) > CODEC_AT and records[CODEC_AT] & CODEC_MASK == Codec.ZSTD:
        raise UnsupportedCompressionTypeError(
            f"Produce requests before version {ZSTD_SINCE} may not carry batches compressed with zstd"
        )
    info = partition.append(records, acks, now_ms)
    result.base_offset = info.first_offset
    result.log_append_time_ms = info.log_append_time
    result.log_start_offset = info.log_start_offset
    if not info.duplicate:
        replicas.appended(partition, len(records))
    end = info.last_offset + 1
    replicated = acks == ACKS_ALL and partition.high_watermark < end
    synced = partition.must_sync
    if synced:
        replicas.sync(partition)
    if replicated or synced:
        return Pending(partition, end, result, replicated=replicated, synced=synced)
    return None


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
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and request.version >= 10:
        partition = request.broker.replicas.get(topic, index)
        if partition is not None:
            result.current_leader.leader_id = partition.leader
            result.current_leader.leader_epoch = partition.leader_epoch


HANDLERS = {ProduceRequest: handle_produce}

"""Fetch (key 1): record batches from many partitions, as they lie in the log.

A response holds at least one whole batch of the first partition that has any, and else keeps to the request's limits.
A fetch that finds fewer than ``min_bytes`` waits for appends, for at most ``max_wait_ms``. The record bytes never pass
through this process: the response carries slices of segment files. But for versions 0 to 3, whose consumers know
older message formats only: what is in a later one is converted (`fetch_conversion`).
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Hashable, Sized

from broker.api.context import Request
from broker.api.errors import error_code
from broker.api.fetch_conversion import AS_STORED_SINCE, FetchConversion, Limited
from broker.api.fetch_session import NO_SESSION, ZERO_ID, FetchContext, FetchPartitionState, partition_key
from broker.log.segment_file import ReadResult
from broker.replica.partition import FetchIsolation
from broker.replica.purgatory import DelayedOperation
from kafkalog.protocol.errors import (
    ErrorCode,
    InconsistentTopicIdError,
    UnknownTopicIdError,
    UnsupportedCompressionTypeError,
)
from kafkalog.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOPIC_ID_VERSION = 13
REPLICA_STATE_SINCE = 15
"""From this version on a follower names itself in ``replica_state``."""
HARD_LIMIT_VERSION = 2
"""Up to this version a response never exceeds the limits, not even for one batch."""
ZSTD_SINCE = 10
"""Consumers that know zstd speak this version (KIP-110)."""
STORAGE_ERROR_VERSION = 5
"""Up to this version clients do not know KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER makes them look again."""

READ_IN_STEPS = 8
"""Times that a worker reads in what is missing before the read goes ahead all the same."""
READ_IN_BYTES = 8 << 20
READ_IN_PARTITION_BYTES = 1 << 20
"""Read in by one worker before the response is made, of all and of each; the connection sees to the rest, as it sends
what is there.
"""

EXPECTED_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)  # fmt: skip
"""What happens to correct consumers in time; not counted as failures, as in Kafka."""

_EMPTY: Sized = b""


def handle_fetch(request: Request) -> Awaitable[None] | None:
    message: FetchRequest = request.message
    broker = request.broker
    names = broker.metadata.names_by_id() if request.version >= TOPIC_ID_VERSION else {}
    context = broker.fetch_sessions.context(request.version, message, names, broker.loop.time())
    if context.error is not ErrorCode.NONE:
        request.reply(FetchResponse(error_code=context.error))
        return None
    fetch = Fetch(request, context)
    missing = fetch.missing()
    if missing:
        return _read_in_and_serve(fetch, missing)
    _serve(fetch)
    return None


async def _read_in_and_serve(fetch: Fetch, missing: list[Callable[[], None]]) -> None:
    """A log that lies on the disk alone: nobody else waits for that."""
    request = fetch.request

    def read_in(work: list[Callable[[], None]]) -> None:
        for step in work:
            step()

    for _ in range(READ_IN_STEPS):
        try:
            await request.broker.workers.run(read_in, missing)
        except OSError:
            # The read meets it again, and answers for the one partition that has it.
            break
        if request.connection.closed:
            return
        missing = fetch.missing()
        if not missing:
            break
    _serve(fetch)


def _serve(fetch: Fetch) -> None:
    request = fetch.request
    message: FetchRequest = request.message
    fetch.read()
    if message.max_wait_ms <= 0 or not fetch.has_partitions or fetch.failed or fetch.is_enough:
        fetch.respond()
        return
    request.connection.state = fetch
    request.broker.replicas.fetch_purgatory.watch(fetch, fetch.keys(), message.max_wait_ms / 1000)


class Fetch(DelayedOperation):
    """One fetch: read, and if that is too little, wait and read again."""

    __slots__ = (
        "_added", "_context", "_diverged", "_is_first", "_isolation", "_replica", "_request", "_results", "failed",
        "max_bytes", "min_bytes", "nbytes",
    )  # fmt: skip

    def __init__(self, request: Request, context: FetchContext) -> None:
        super().__init__()
        message: FetchRequest = request.message
        self._request = request
        self._context = context
        self._replica = (
            message.replica_id if request.version < REPLICA_STATE_SINCE else message.replica_state.replica_id
        )
        """The broker id of a follower; negative for a consumer."""
        self._isolation = FetchIsolation.of(self._replica, message.isolation_level)
        self._is_first = True
        """What is read again after a wait tells nothing new of where a follower is."""
        self._diverged = False
        self.max_bytes = min(message.max_bytes, request.broker.config["fetch.max.bytes"])
        quota = request.broker.quotas.fetch
        if quota.limited:
            # More at once would have to wait however long the client was quiet before.
            self.max_bytes = int(min(self.max_bytes, quota.most_in_window(request.user, request.client_id or "")))
        self.min_bytes = min(message.min_bytes, self.max_bytes)
        self._added = 0
        self._results: list[PartitionData] = []
        self.nbytes = 0
        self.failed = False

    def keys(self) -> list[Hashable]:
        return [(state.name, state.partition) for state in self._context.partitions]

    @property
    def request(self) -> Request:
        return self._request

    @property
    def has_partitions(self) -> bool:
        return bool(self._context.partitions)

    @property
    def is_enough(self) -> bool:
        """Whether what was read is worth an answer before its time."""
        return self._diverged or self.nbytes >= self.min_bytes or (self.nbytes > 0 and self._is_behind())

    def missing(self) -> list[Callable[[], None]]:
        """What a worker has to do before ``read`` gets by without the disk; nothing, for a consumer at the tail."""
        found: list[Callable[[], None]] = []
        get = self._request.broker.replicas.get
        left = min(self.max_bytes, READ_IN_BYTES)
        for state in self._context.partitions:
            partition = get(state.name, state.partition)
            if partition is not None:
                size = min(state.max_bytes, left, READ_IN_PARTITION_BYTES)
                work = partition.log.missing(state.fetch_offset, size)
                if work is not None:
                    found.append(work)
                    left -= size
        return found

    def read(self) -> None:
        """Read every partition anew."""
        self._results = results = []
        remaining = self.max_bytes
        is_hard = self._request.version <= HARD_LIMIT_VERSION
        min_one = True
        self.failed = False
        self.nbytes = 0
        for state in self._context.partitions:
            data = PartitionData(partition_index=state.partition)
            try:
                limit = max(0, min(state.max_bytes, remaining))
                result = self._read_one(state, limit, min_one, data)
            except Exception as error:
                self._fail(data, state, error)
            else:
                size = len(result.slices[0]) if result.slices else 0
                if size:
                    data.records = result.slices[0]
                    if is_hard:
                        data.records = Limited(result.slices[0], limit) if limit else _EMPTY
                        size = len(data.records)
                    self.nbytes += size
                    remaining -= size
                    min_one = is_hard
            results.append(data)
        self._is_first = False

    def _read_one(self, state: FetchPartitionState, max_bytes: int, min_one: bool, data: PartitionData) -> ReadResult:
        if not state.name:
            raise UnknownTopicIdError
        partition = self._request.broker.replicas.require(state.name, state.partition)
        partition.counters.total_fetch += 1
        if state.topic_id != ZERO_ID and partition.log.topic_id != state.topic_id:
            raise InconsistentTopicIdError
        if self._request.version < ZSTD_SINCE and partition.log.config.compression_type == "zstd":
            raise UnsupportedCompressionTypeError
        data.records = _EMPTY
        if self._replica >= 0:
            partition.check_follower(self._replica, state.leader_epoch)
        log_end = partition.log.log_end_offset
        diverged = None
        if state.fetched_epoch >= 0:
            partition.check_leader_epoch(state.leader_epoch)
            diverged = partition.divergence(state.fetched_epoch, state.fetch_offset)
        if diverged is not None:
            self._diverged = True
            data.diverging_epoch = EpochEndOffset(epoch=diverged[0], end_offset=diverged[1])
            result = ReadResult([], 0)
        elif self._request.broker.replicas.logs.resources.open_files.crowded:
            # Slices on their way hold as many files as there may be: the client asks again for what this leaves out.
            result = ReadResult([], 0)
        else:
            result = partition.read(state.fetch_offset, max_bytes, self._isolation, state.leader_epoch, min_one=min_one)
        data.high_watermark = partition.high_watermark
        data.last_stable_offset = partition.last_stable_offset
        data.log_start_offset = partition.log.log_start_offset
        if self._isolation is FetchIsolation.LAST_STABLE_OFFSET:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset)
                for row in partition.aborted_within(state.fetch_offset, result)
            ]
        else:
            data.aborted_transactions = None
        if self._replica >= 0 and self._is_first and diverged is None:
            self._request.broker.replicas.follower_fetched(
                partition, self._replica, state.fetch_offset, state.log_start, log_end
            )
        return result

    def _fail(self, data: PartitionData, state: FetchPartitionState, error: Exception) -> None:
        self.failed = True
        code = error_code(error)
        if code not in EXPECTED_ERRORS:
            self._request.broker.replicas.counters.known(state.name).failed_fetch += 1
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._request.version <= STORAGE_ERROR_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data.error_code = code
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        data.records = _EMPTY
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH) and self._request.version >= 16:
            partition = self._request.broker.replicas.get(state.name, state.partition)
            if partition is not None:
                data.current_leader.leader_id = partition.leader
                data.current_leader.leader_epoch = partition.leader_epoch

    def noticed(self, key: Hashable, amount: int) -> None:
        self._added += amount

    def try_complete(self) -> bool:
        # Reading again is worth it only when enough was added; a partition that vanished adds nothing but must be told.
        if self.nbytes + self._added < self.min_bytes and not self._lost_partition() and not self._is_behind():
            return False
        self.read()
        self._added = 0
        if not self.failed and not self.is_enough:
            return False
        self.respond()
        return True

    def expire(self) -> None:
        self.read()
        self.respond()

    def fail(self, error: Exception) -> None:
        self._request.drop()

    def _lost_partition(self) -> bool:
        replicas = self._request.broker.replicas
        return not all(replicas.is_online(state.name, state.partition) for state in self._context.partitions)

    def _is_behind(self) -> bool:
        """Whether a partition is read in a segment that is not appended to any more: no minimum comes together there,
        for a response ends with the segment.
        """
        get = self._request.broker.replicas.get
        for state in self._context.partitions:
            partition = get(state.name, state.partition)
            if partition is not None and partition.is_behind(state.fetch_offset, self._isolation):
                return True
        return False

    def respond(self) -> None:
        """Send what was read last, converted where that is needed; nothing, where its client is above a quota."""
        quotas = self._request.broker.quotas
        if quotas.fetch.limited or quotas.request.limited:
            wait_ms = self._request.quota_wait_ms((quotas.fetch, self.nbytes))
            if wait_ms > 0:
                self._send_nothing(wait_ms)
                return
        if self._request.version < AS_STORED_SINCE and any(data.records for data in self._results):
            FetchConversion(self._request, self._context.partitions, self._results, self._fail, self._send).start()
        else:
            self._send()

    def _send_nothing(self, wait_ms: int) -> None:
        """The client is to ask again for all of it after its time, and what it did not get does not count (KIP-219)."""
        request, context = self._request, self._context
        broker = request.broker
        if broker.quotas.fetch.limited:
            broker.quotas.fetch.take_back(request.user, request.client_id or "", self.nbytes, broker.quota_clock())
        if context.session is not None and not context.incremental:
            # A session begins with a full response: without one the client begins anew.
            broker.fetch_sessions.forget(context.session_id)
            context.session_id = NO_SESSION
        request.reply(FetchResponse(session_id=context.session_id), wait_ms)

    def _send(self) -> None:
        context = self._context
        by_id = self._request.version >= TOPIC_ID_VERSION
        counters = self._request.broker.replicas.counters
        topics: dict[str | uuid.UUID, FetchableTopicResponse] = {}
        served = []
        for state, data in zip(context.partitions, self._results, strict=True):
            size = len(data.records) if data.records is not None else 0
            if context.session is not None:
                news = state.changed(data.error_code, data.high_watermark, data.log_start_offset, size)
                if context.incremental and not news and data.diverging_epoch.epoch < 0:
                    continue
                if size:
                    served.append(partition_key(state, by_id))
            if size:
                counters.known(state.name).bytes_out += size
            identity = state.topic_id if by_id else state.name
            topic = topics.get(identity)
            if topic is None:
                topic = topics[identity] = FetchableTopicResponse(topic=state.name, topic_id=state.topic_id)
            topic.partitions.append(data)
        if context.session is not None and served:
            context.session.served(served)
        self._request.reply(FetchResponse(session_id=context.session_id, responses=list(topics.values())), 0)


HANDLERS = {FetchRequest: handle_fetch}

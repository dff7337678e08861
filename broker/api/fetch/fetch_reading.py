"""Read the partitions of one fetch, and build its response.

Partitions are read in the order of the request. The caller decides how many are read at a time, and may
read them again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Sized

from broker.api.authorization import TopicRights
from broker.api.context import Request
from broker.api.current_leaders import CurrentLeaders
from broker.api.errors import error_code
from broker.api.fetch.fetch_conversion import AS_STORED_SINCE, FetchConversion, Limited
from broker.api.fetch.fetch_partition import FetchPartitionState, PartitionKey, partition_key
from broker.api.fetch.fetch_rest import Authority, Reader, SessionRest
from broker.api.fetch.fetch_session import (
    NO_SESSION,
    TOPIC_ID_VERSION,
    FetchContext,
    FetchSession,
)
from broker.log.read.log_reader import IndexNotReadyError
from broker.log.segment.file_slices import ReadResult
from broker.metadata.model import NO_TOPIC_ID
from broker.replica.follower_calls import FollowerCall
from broker.replica.isolation import FetchIsolation
from broker.replica.nearby import nearby_replica
from broker.replica.partition import Partition
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import (
    ErrorCode,
    InconsistentTopicIdError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnsupportedCompressionTypeError,
)
from kafkalog.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

REPLICA_STATE_SINCE = 15
"""From this version on a follower names itself in `replica_state`."""
HARD_LIMIT_VERSION = 2
"""Up to this version a response never exceeds the limits, not even for one batch."""
ZSTD_SINCE = 10
"""Consumers that know zstd speak this version (KIP-110)."""
STORAGE_ERROR_VERSION = 5
"""Up to this version clients do not know KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER makes them look again."""

LEADER_SINCE = 16
"""Versions whose responses name the partition's leader if it is not this broker (KIP-951)."""
FOLLOWERS_SINCE = 11
"""From this version on consumers can read from followers, and name their rack (KIP-392)."""
QUIET_RESPONSES = 2
"""A partition may rest when this number of responses in a row had no records of it. A busy one would soon wake."""
READ_IN_STEPS = 8
"""A worker reads missing pages this number of times. Then the read goes ahead, even if some are missing again."""
READ_IN_BYTES = 8 << 20
READ_IN_PARTITION_BYTES = 1 << 20
"""The most bytes, of all partitions and of each, that one worker reads into memory before the response is made. The
connection has the rest read as it sends the response.
"""

EXPECTED_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)  # fmt: skip
"""Errors that correct consumers meet now and then. As in Kafka, they do not count as failures."""

_EMPTY: Sized = b""

ResponseTopics = dict[str | uuid.UUID, FetchableTopicResponse]
"""The result of each topic in a response, by the topic's name or id."""


def read_in(work: Iterable[Callable[[], None]]) -> None:
    """Read the `missing` pages in. It blocks: call it on a worker."""
    for step in work:
        step()


def replica_of(request: Request) -> int:
    """Return the id of the follower that fetches; a negative number for a consumer."""
    message: FetchRequest = request.message
    replica: int = message.replica_id if request.version < REPLICA_STATE_SINCE else message.replica_state.replica_id
    return replica


def refuse(request: Request, code: ErrorCode) -> None:
    """Answer a fetch whose session is not usable; a follower is not held back by quotas then, either."""
    request.reply(FetchResponse(error_code=code), 0 if request.is_from_follower else None)


def _rights(request: Request, *, names_broker: bool) -> Callable[[str], bool] | None:
    """Return what tells whether the client may read a topic; None if it may read all of them.

    Whoever states a broker's id needs the right of brokers: followers read what consumers may not see, and what they
    have read counts as replicated.
    """
    if request.broker.authorizer is None:
        return None
    if names_broker:
        return None if request.is_from_follower else lambda topic: False
    return TopicRights(request, AclOperation.READ).allow


def _authority(request: Request) -> Authority | None:
    authorizer, session = request.broker.authorizer, request.connection.session
    return None if authorizer is None else Authority(session.principal, session.peer, authorizer.revision)


class FetchReading:
    """Reads the partitions of one fetch.

    Attributes:
        results: of each partition that was read, in order.
        nbytes: size of the records in them.
        failed: whether there is an error among them.
        min_bytes, max_bytes: what the request asks for, within what the broker allows.
    """

    __slots__ = (
        "_diverged", "_is_first", "_is_from_follower", "_is_redirected", "_leaders", "_may_read", "_rack", "_reader",
        "_replica",
        "context", "failed", "isolation", "max_bytes", "min_bytes", "nbytes", "request", "results",
    )  # fmt: skip

    def __init__(self, request: Request, context: FetchContext) -> None:
        message: FetchRequest = request.message
        self.request = request
        self.context = context
        self._replica = replica_of(request)
        """The broker id of a follower; negative for a consumer."""
        self._is_from_follower = self._replica >= 0
        """True if the client says so. Quotas of clients do not hold for followers, as in Kafka, if they may be such."""
        self.isolation = FetchIsolation.of(self._replica, message.isolation_level)
        self._may_read = _rights(request, names_broker=self._is_from_follower)
        """Returns whether the client may read a topic; None if it may read all."""
        self._is_first = True
        """Only the first read notes a follower's position; a repeated read after a wait says nothing new about it."""
        self._diverged = False
        self._rack = message.rack_id if self._may_redirect else ""
        self._is_redirected = False
        """True if the response names a preferred read replica for at least one partition."""
        self.max_bytes = min(message.max_bytes, request.broker.config["fetch.max.bytes"])
        quota = request.broker.quotas.fetch
        if quota.limited and not request.is_from_follower:
            # A larger response would have to wait, however long the client was quiet before.
            self.max_bytes = int(min(self.max_bytes, quota.most_in_window(request.user, request.client_id or "")))
        self.min_bytes = min(message.min_bytes, self.max_bytes)
        self.results: list[PartitionData] = []
        self.nbytes = 0
        self.failed = False
        self._leaders = CurrentLeaders(request, LEADER_SINCE, NodeEndpoint)
        broker_epoch = message.replica_state.replica_epoch if request.version >= REPLICA_STATE_SINCE else -1
        self._reader = Reader(
            self._replica, self.isolation, request.version, self._rack, broker_epoch, _authority(request)
        )
        session = context.session
        if session is not None and session.rest is not None:
            session.rest.request_came(self._reader)
            context.read_again()

    @property
    def _may_redirect(self) -> bool:
        """Return whether the response may name a preferred read replica (KIP-392)."""
        request = self.request
        is_able = not self._is_from_follower and request.version >= FOLLOWERS_SINCE
        return is_able and request.broker.config["replica.selector.class"] is not None

    # -- reading

    @property
    def has_enough(self) -> bool:
        """True if enough was read to answer before `fetch.max.wait.ms` has passed."""
        return self._diverged or self._is_redirected or self.nbytes >= self.min_bytes

    def is_behind(self, states: Iterable[FetchPartitionState]) -> bool:
        """Return whether a partition is read in an older segment, so that waiting for a minimum of bytes is useless.

        A response ends with the segment, and nothing is appended to an older segment any more.
        """
        get = self.request.broker.replicas.get
        for state in states:
            partition = get(state.name, state.partition)
            if partition is not None and partition.is_behind(state.fetch_offset, self.isolation):
                return True
        return False

    def keys(self) -> list[Hashable]:
        """Return what a wait for more records watches: the partitions that were read, and the rest of the session."""
        keys: list[Hashable] = [(state.name, state.partition) for state in self.context.partitions]
        session = self.context.session
        if session is not None and session.rest is not None:
            keys.append(session.rest)
        if self._is_from_follower:
            keys.append(FollowerCall(self._replica))
        return keys

    def take_woken(self) -> list[FetchPartitionState]:
        """Return the partitions that have woken since the request came, or since this was last asked."""
        session = self.context.session
        if session is None or session.rest is None:
            return []
        woken, session.rest.woken = session.rest.woken, []
        return woken

    def missing(self, states: Iterable[FetchPartitionState]) -> list[Callable[[], None]]:
        """Return the work for a worker before `read` needs no disk; none for a consumer at the tail."""
        found: list[Callable[[], None]] = []
        get = self.request.broker.replicas.get
        left = min(self.max_bytes - self.nbytes, READ_IN_BYTES)
        for state in states:
            partition = get(state.name, state.partition)
            if partition is not None and (self._may_read is None or self._may_read(state.name)):
                size = min(state.max_bytes, left, READ_IN_PARTITION_BYTES)
                committed = self.isolation is FetchIsolation.LAST_STABLE_OFFSET
                work = partition.log.missing(state.fetch_offset, size, committed=committed)
                if work is not None:
                    found.append(work)
                    left -= size
        return found

    def begin_again(self) -> None:
        """Drop the results of the last read; what has woken meanwhile is read, too."""
        self.context.read_again()
        self.results = []
        self.nbytes = 0
        self.failed = False
        self._leaders = CurrentLeaders(self.request, LEADER_SINCE, NodeEndpoint)
        self._is_first = False

    def read(self, states: Iterable[FetchPartitionState]) -> None:
        """Read these partitions, which follow those that were already read."""
        results = self.results
        remaining = self.max_bytes - self.nbytes
        is_hard = self.request.version <= HARD_LIMIT_VERSION
        min_one = is_hard or not self.nbytes
        for state in states:
            data = PartitionData(partition_index=state.partition)
            try:
                limit = max(0, min(state.max_bytes, remaining))
                result = self._read_one(state, limit, min_one, data)
            except Exception as error:
                self.fail(data, state, error)
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

    def _read_one(self, state: FetchPartitionState, max_bytes: int, min_one: bool, data: PartitionData) -> ReadResult:
        if not state.name:
            raise UnknownTopicIdError
        if self._may_read is not None and not self._may_read(state.name):
            raise TopicAuthorizationFailedError
        partition = self.request.broker.replicas.require(state.name, state.partition)
        partition.counters.total_fetch += 1
        if state.topic_id != NO_TOPIC_ID and partition.log.topic_id != state.topic_id:
            raise InconsistentTopicIdError
        if self.request.version < ZSTD_SINCE and partition.log.config.compression_type == "zstd":
            raise UnsupportedCompressionTypeError
        data.records = _EMPTY
        if self._is_from_follower:
            partition.check_follower(self._replica, state.leader_epoch)
        log_end = partition.log.log_end_offset
        only_leader = self._is_from_follower or self.request.version < FOLLOWERS_SINCE
        diverged = None
        if state.fetched_epoch >= 0:
            partition.check_leader_epoch(state.leader_epoch, only_leader=only_leader)
            diverged = partition.divergence(state.fetched_epoch, state.fetch_offset)
        if diverged is not None:
            self._diverged = True
            data.diverging_epoch = EpochEndOffset(epoch=diverged[0], end_offset=diverged[1])
            result = ReadResult([], 0)
        elif self._is_from_follower and self._is_held_back(partition):
            result = ReadResult([], 0)
        elif self._rack and (nearby := self._nearby(partition, state)) is not None:
            self._is_redirected = True
            data.preferred_read_replica = nearby
            result = ReadResult([], 0)
        elif self.request.broker.replicas.logs.resources.open_files.crowded:
            # Slices on their way hold as many files as there may be: the client asks again for what this leaves out.
            result = ReadResult([], 0)
        else:
            result = partition.read(
                state.fetch_offset,
                max_bytes,
                self.isolation,
                state.leader_epoch,
                min_one=min_one,
                only_leader=only_leader,
            )
        data.high_watermark = partition.high_watermark
        data.last_stable_offset = partition.last_stable_offset
        data.log_start_offset = partition.log.log_start_offset
        if self.isolation is FetchIsolation.LAST_STABLE_OFFSET:
            try:
                aborted = partition.aborted_within(state.fetch_offset, result)
            except IndexNotReadyError:
                # A worker builds the index anew. The client asks again for what this leaves out.
                aborted, result = [], ReadResult([], 0)
            data.aborted_transactions = [
                AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset) for row in aborted
            ]
        else:
            data.aborted_transactions = None
        if self._is_from_follower and self._is_first and diverged is None:
            self.request.broker.replicas.follower_fetched(
                partition, self._replica, state.fetch_offset, state.log_start, log_end, self._reader.broker_epoch
            )
        return result

    def _nearby(self, partition: Partition, state: FetchPartitionState) -> int | None:
        """Return the follower that the consumer should read from, if there is a better one than this leader."""
        request, leading = self.request, partition.leading
        if leading is None:
            return None
        partition.check_leader_epoch(state.leader_epoch)
        listener = request.connection.endpoint.name
        live = request.broker.metadata.alive_brokers()
        racks = {each.broker_id: each.rack for each in live if each.endpoint(listener) is not None}
        return nearby_replica(leading, racks, self._rack, state.fetch_offset)

    def _is_held_back(self, partition: Partition) -> bool:
        """Return whether a follower gets nothing now: it is throttled and not in sync."""
        return (
            partition.throttled_leader
            and self._replica not in partition.isr
            and self.request.broker.replicas.leader_quota.is_exceeded
        )

    def fail(self, data: PartitionData, state: FetchPartitionState, error: Exception) -> None:
        """Set an error as the result of a partition."""
        self.failed = True
        code = error_code(error)
        if code not in EXPECTED_ERRORS:
            self.request.broker.replicas.counters.known(state.name).failed_fetch += 1
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self.request.version <= STORAGE_ERROR_VERSION:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data.error_code = code
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        data.records = _EMPTY
        self._leaders.name(code, state.name, state.partition, data.current_leader)

    # -- answering

    def response(self, topics: ResponseTopics) -> FetchResponse:
        """Return the response with what `add_results` has added to `topics`."""
        return FetchResponse(
            session_id=self.context.session_id, responses=list(topics.values()), node_endpoints=self._leaders.nodes
        )

    def hold_back(self) -> bool:
        """Send nothing if the client is above a quota; return whether it is."""
        quotas = self.request.broker.quotas
        if (quotas.fetch.limited or quotas.request.limited) and not self.request.is_from_follower:
            wait_ms = self.request.quota_wait_ms((quotas.fetch, self.nbytes))
            if wait_ms > 0:
                self._send_nothing(wait_ms)
                return True
        return False

    def _send_nothing(self, wait_ms: int) -> None:
        """Answer without records: the client retries after the throttle time, and no bytes are counted (KIP-219)."""
        request, context = self.request, self.context
        broker = request.broker
        if broker.quotas.fetch.limited:
            broker.quotas.fetch.take_back(request.user, request.client_id or "", self.nbytes, broker.quota_clock())
        if context.session is not None and not context.incremental:
            # A session begins with a full response: without one the client begins anew.
            broker.fetch_sessions.forget(context.session_id)
            context.session_id = NO_SESSION
        request.reply(FetchResponse(session_id=context.session_id), wait_ms)

    @property
    def needs_conversion(self) -> bool:
        """True if the client may not know the message format of the records that were read."""
        return self.request.version < AS_STORED_SINCE and self.nbytes > 0

    def convert(self, then: Callable[[], None]) -> None:
        """Convert the records that were read."""
        FetchConversion(self.request, self.context.partitions, self.results, self.fail, then).start()

    def add_results(
        self, topics: ResponseTopics, states: Iterable[FetchPartitionState], results: Iterable[PartitionData]
    ) -> None:
        """Add the results of these partitions to the response, and note in the session what was sent."""
        context = self.context
        session = context.session
        by_id = self.request.version >= TOPIC_ID_VERSION
        counters = self.request.broker.replicas.counters
        served: list[PartitionKey] = []
        for state, data in zip(states, results, strict=True):
            size = len(data.records) if data.records is not None else 0
            if session is not None:
                news = state.changed(data.error_code, data.high_watermark, data.log_start_offset, size)
                if state.quiet >= QUIET_RESPONSES:
                    self._let_rest(session, state, data)
                if context.incremental and not news and data.diverging_epoch.epoch < 0 > data.preferred_read_replica:
                    continue
                if size:
                    served.append(partition_key(state, by_id))
            if size:
                if self._is_from_follower:
                    counters.replication_bytes_out += size
                    self._count_throttled(state, size)
                else:
                    counters.known(state.name).bytes_out += size
            identity = state.topic_id if by_id else state.name
            topic = topics.get(identity)
            if topic is None:
                topic = topics[identity] = FetchableTopicResponse(topic=state.name, topic_id=state.topic_id)
            topic.partitions.append(data)
        if session is not None and served:
            session.served(served)

    def _let_rest(self, session: FetchSession, state: FetchPartitionState, data: PartitionData) -> None:
        if session.rest is None:
            session.rest = SessionRest(session, self.request.broker.replicas, self._reader)
        session.rest.begin(state, data)

    def _count_throttled(self, state: FetchPartitionState, size: int) -> None:
        replicas = self.request.broker.replicas
        partition = replicas.get(state.name, state.partition)
        if partition is not None and partition.throttled_leader:
            replicas.leader_quota.record(size)

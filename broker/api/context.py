"""The arguments of handlers: the broker's parts, and the request to answer."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from broker.api.errors import ClientGoneError, make_encodable
from broker.api.fetch.fetch_session import FetchSessionCache
from broker.api.large import FullCollections, Lanes, Turn, Turns, release
from broker.api.loop_time import LoopTime
from broker.api.shared_metadata import SharedMetadata
from broker.config.server import BrokerConfig
from broker.controller.auto_creation import AutoCreation
from broker.controller.cluster.controller import ClusterController
from broker.controller.configs import ConfigController
from broker.controller.producer_ids import ProducerIds
from broker.controller.publisher import ConfigPublisher
from broker.controller.quotas import QuotaController
from broker.controller.security.acls import AclController
from broker.controller.security.delegation_tokens import DelegationTokens
from broker.controller.security.scram_users import ScramUsers
from broker.controller.topics import TopicController
from broker.coordinator.group.classic.classic_groups import ClassicGroups
from broker.coordinator.group.kip848.consumer_groups import ConsumerGroups
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.transaction.service import Transactions
from broker.counters import RequestCounter
from broker.member.member import ClusterMember
from broker.metadata.cache import MetadataCache
from broker.net.chunks import Chunk
from broker.net.connection import Connection
from broker.net.postponed import Cancellable, PostponedResponse
from broker.quota.client import ClientQuota, ClientQuotas, Mutations
from broker.quota.connections import ConnectionRates
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from broker.security.authorizer.authorizer import Authorizer
from broker.security.authorizer.model import ALL_OPERATIONS, NOT_ASKED
from broker.system.workers import Workers, WorkerShare
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import EncodeError, RequestHeader, encode_response, response_head
from kafkalog.protocol.errors import ErrorCode, NotControllerError
from kafkalog.protocol.schema import Response

logger = logging.getLogger(__name__)

Entry = TypeVar("Entry")

encoded = cast(Callable[[Response, int, int], list[Chunk]], encode_response)
"""`encode_response` with a wider type: slices of files, which handlers put into `records`, become chunks."""


@dataclass(slots=True)
class Broker:
    """The parts of a running broker that serve requests. `broker.assembly` puts them together."""

    runtime: Runtime
    broker_id: int
    metadata: MetadataCache
    """The cluster as this broker knows it: brokers, leaders, topics."""
    replicas: ReplicaManager
    topics: TopicController
    auto_creation: AutoCreation
    configs: ConfigController
    producer_ids: ProducerIds
    quotas: ClientQuotas
    connection_rates: ConnectionRates
    quota_controller: QuotaController
    authorizer: Authorizer | None
    """Decides what clients may do; None if everybody may do everything."""
    acls: AclController
    scram_users: ScramUsers
    tokens: DelegationTokens | None
    """The delegation tokens; None if the broker has no secret for them."""
    publisher: ConfigPublisher
    groups: GroupCoordinator
    classic_groups: ClassicGroups
    consumer_groups: ConsumerGroups
    transactions: Transactions
    fetch_sessions: FetchSessionCache
    """The sessions of clients that fetch incrementally (KIP-227)."""
    lanes: Lanes
    checking: WorkerShare
    turns: Turns
    collections: FullCollections
    shared_metadata: SharedMetadata
    member: ClusterMember | None = None
    """The membership in a cluster over ZooKeeper; None for a lone broker."""
    controller: ClusterController | None = None
    """The controller, active or not; None for a lone broker."""
    log_starts_changed: Callable[[], None] = lambda: None
    """Called when clients deleted records, so that log start offsets are checkpointed soon."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.runtime.loop

    @property
    def workers(self) -> Workers:
        return self.runtime.workers

    @property
    def config(self) -> BrokerConfig:
        return self.replicas.config

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self.runtime.now_ms()

    def quota_clock(self) -> int:
        """Return the milliseconds of the monotonic clock that quotas use."""
        return self.runtime.monotonic_ms()


class Request:
    """One request under way. Exactly one of `reply`, `no_reply` and `drop` ends it.

    Attributes:
        is_from_follower: whether it is the fetch of a follower, which may act for the cluster.
        owns_records: whether the records were copied out of the connection's buffer.
        turn: the turns that its handler takes, if it takes any.
    """

    __slots__ = (
        "_began",
        "_counter",
        "_loop_time",
        "_postponed",
        "broker",
        "client_id",
        "connection",
        "correlation_id",
        "is_answered",
        "is_from_follower",
        "message",
        "nbytes",
        "owns_records",
        "response_type",
        "turn",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        header: RequestHeader,
        message: Any,
        counter: RequestCounter,
        began: float,
        nbytes: int,
        loop_time: LoopTime | None,
    ) -> None:
        self.broker = broker
        self.nbytes = nbytes
        self._loop_time = loop_time
        self._postponed: PostponedResponse | None = None
        self._counter = counter
        self._began = began
        self.connection = connection
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.message = message
        self.response_type: type[Response] = type(message).response_type
        self.is_answered = False
        self.is_from_follower = False
        self.owns_records = False
        self.turn: Turn | None = None

    @property
    def user(self) -> str:
        """The name of the principal that sent it, for quotas."""
        return self.connection.session.principal.name

    # -- authorization

    def allows(
        self, operation: AclOperation, kind: AclResourceType, name: str, *, count: int = 1, tells_denied: bool = True
    ) -> bool:
        """Return whether its client may do an operation with a resource, and tell the audit log.

        Args:
            operation: the operation.
            kind: the type of the resource.
            name: its name.
            count: how often the request names it.
            tells_denied: whether a denial is logged. It is not logged if another right may allow the same.
        """
        authorizer = self.broker.authorizer
        if authorizer is None:
            return True
        session = self.connection.session
        return authorizer.check(
            session.principal,
            session.peer,
            operation,
            kind,
            name,
            api=self.response_type.__name__,
            count=count,
            tells_denied=tells_denied,
        )

    def allows_cluster(self, operation: AclOperation, *, tells_denied: bool = True) -> bool:
        """Return whether its client may do an operation with the cluster, and tell the audit log."""
        return self.allows(operation, AclResourceType.CLUSTER, CLUSTER_NAME, tells_denied=tells_denied)

    def allows_any(self, operation: AclOperation, kind: AclResourceType) -> bool:
        """Return whether its client may do an operation with some resource of a type, and tell the audit log."""
        authorizer, session = self.broker.authorizer, self.connection.session
        return authorizer is None or authorizer.check_any(
            session.principal, session.peer, operation, kind, api=self.response_type.__name__
        )

    def sees(self, kind: AclResourceType, name: str) -> bool:
        """Return whether its client may know of a resource; the audit log is not told, for lists that leave it out."""
        authorizer, session = self.broker.authorizer, self.connection.session
        return authorizer is None or authorizer.allows(
            session.principal, session.peer, AclOperation.DESCRIBE, kind, name
        )

    @property
    def seen_topics(self) -> Callable[[str], bool] | None:
        """A function that returns whether its client may know of a topic; None if it may know of all."""
        return None if self.broker.authorizer is None else partial(self.sees, AclResourceType.TOPIC)

    def authorized_operations(self, asked: bool, kind: AclResourceType, name: str) -> int:
        """Return the operations that its client may do with a resource, as a bit field, if they were asked for."""
        if not asked:
            return NOT_ASKED
        authorizer, session = self.broker.authorizer, self.connection.session
        if authorizer is None:
            return ALL_OPERATIONS[kind]
        return authorizer.authorized(session.principal, session.peer, kind, name)

    def authorized_cluster_operations(self, asked: bool) -> int:
        """Return the same for the cluster; 0 if the client may not describe it."""
        if asked and not self.allows_cluster(AclOperation.DESCRIBE):
            return 0
        return self.authorized_operations(asked, AclResourceType.CLUSTER, CLUSTER_NAME)

    # -- quotas

    def quota_wait_ms(
        self, *uses: tuple[ClientQuota, float], timed: bool = True, mutations: Mutations | None = None
    ) -> int:
        """Count what the request used of its quotas, before it is answered.

        Args:
            timed: whether the time that it used the event loop counts.
            mutations: the topics and partitions that it has created and deleted, which were counted before.

        Returns:
            How long its client has to wait for its quotas; an argument of `reply` or `no_reply`.
        """
        now_ms = self.broker.quota_clock()
        client_id = self.client_id or ""
        waits = [(quota, quota.record(self.user, client_id, amount, now_ms)) for quota, amount in uses if quota.limited]
        quota = self.broker.quotas.request
        if timed and quota.limited and self._loop_time is not None:
            waits.append((quota, quota.record(self.user, client_id, self._loop_time.seconds * 100, now_ms)))
        if mutations is not None:
            waits.append((self.broker.quotas.mutation, mutations.wait_ms(now_ms)))
        longest, wait_ms = max(waits, key=lambda wait: wait[1], default=(None, 0))
        if longest is not None and wait_ms > 0:
            longest.throttled(self.user, client_id, wait_ms, now_ms)
        return wait_ms

    def mutations(self, strict_since: int) -> Mutations:
        """Count creations and deletions of the request against the quota of mutations (KIP-599).

        Args:
            strict_since: the first version whose clients understand THROTTLING_QUOTA_EXCEEDED.
        """
        broker = self.broker
        return Mutations(
            broker.quotas.mutation,
            self.user,
            self.client_id or "",
            broker.quota_clock,
            strict=self.version >= strict_since,
        )

    def _hold_back(self, response: Response, wait_ms: int | None) -> None:
        if wait_ms is None:
            is_exempt = response.api_key == ApiKey.WRITE_TXN_MARKERS
            wait_ms = self.quota_wait_ms() if self.broker.quotas.request.limited and not is_exempt else 0
        if wait_ms > 0:
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = wait_ms
            self.connection.hold_back(wait_ms / 1000)

    def reply(self, response: Response, wait_ms: int | None = None) -> None:
        """Send `response` in the request's version.

        Args:
            wait_ms: how long the client has to wait for its quotas (`quota_wait_ms`), if that is known.
        """
        self._hold_back(response, wait_ms)
        self._send(self._encoded(response))

    def reply_body(self, response: Response, body: memoryview) -> None:
        """Send an encoded body, which others get as well.

        Args:
            response: an empty response of the same class. It gets the time for which the client is held back.
            body: the body, from `encoded_body`.
        """
        self._hold_back(response, None)
        chunks: list[Chunk] = [response_head(response, self.version, self.correlation_id, len(body)), body]
        first = response.fields[0]
        if first.name == "throttle_time_ms" and self.version in first.versions:
            chunks[1:] = [struct.pack(">i", getattr(response, first.name)), body[4:]]
        self._send(chunks)

    def encoded_body(self, response: Response) -> memoryview:
        """Return the body of a response without records, in the request's version. Call it on any thread."""
        (frame,) = self._encoded(response)
        assert isinstance(frame, bytearray)
        return memoryview(frame).toreadonly()[len(response_head(response, self.version, 0)) :]

    def _send(self, chunks: list[Chunk]) -> None:
        self._count()
        self.is_answered = True
        if self._postponed is None:
            self.connection.reply(chunks)
        else:
            self._postponed.reply(chunks)

    def _count(self) -> None:
        seconds = self.broker.runtime.seconds() - self._began
        self._counter.answered(seconds, is_from_follower=self.is_from_follower)

    def wait_for(self, operation: Cancellable) -> None:
        """Wait for `operation`, which is cancelled if the client leaves. The message is not kept, as in `postpone`."""
        self.message = None
        self.connection.state = operation

    def postpone(self, operation: Cancellable) -> None:
        """Reply when `operation` has ended; requests that may follow this one are served meanwhile.

        The message is not kept: its records are views of memory that others use from now on.
        """
        self.message = None
        self._postponed = self.connection.postpone(operation)

    def fail(self) -> bool:
        """Answer UNKNOWN_SERVER_ERROR if the response has an error field of its own; return False if it has none."""
        field = next((field for field in self.response_type.fields if field.name == "error_code"), None)
        if self.is_answered or field is None or self.version not in field.versions:
            return False
        self.reply(self._empty(ErrorCode.UNKNOWN_SERVER_ERROR), 0)
        return True

    def refuse(self, code: ErrorCode) -> None:
        """Answer an error, and nothing else; a version without a field for it has an empty answer."""
        response = self._empty(code)
        if any(field.name == "error_message" for field in response.fields):
            response.error_message = code.message
        self.reply(response)

    def _empty(self, code: ErrorCode) -> Any:
        response = self.response_type(error_code=code)
        make_encodable(response, self.version)
        return response

    def _encoded(self, response: Response) -> list[Chunk]:
        try:
            return encoded(response, self.version, self.correlation_id)
        except EncodeError as error:
            logger.warning("a response to %s had to be changed to be sent: %s", self.connection.peer, error)
            if not make_encodable(response, self.version):
                raise
            return encoded(response, self.version, self.correlation_id)

    def take_turns(self) -> Turn:
        """Return the turns of its handler, which has something to do before each of them ends."""
        if self.turn is None:
            self.turn = Turn(self.broker.turns, self.broker.collections)
        return self.turn

    async def each(self, entries: Iterable[Entry]) -> AsyncIterator[Entry]:
        """Yield the entries one by one; other requests get their turn in between if they take long.

        Raises:
            ClientGoneError: the client has disconnected meanwhile.
        """
        turn = self.take_turns()
        for entry in entries:
            yield entry
            if turn.is_over:
                await turn.end()
                if self.connection.closed:
                    raise ClientGoneError

    @property
    def refusal(self) -> NotControllerError | None:
        """The error for a request that only the controller carries out; None if this broker carries it out."""
        controller = self.broker.controller
        if controller is None or controller.is_active:
            return None
        return NotControllerError("This broker is not the controller.")

    async def distinct(self, entries: Iterable[Entry]) -> dict[Entry, None]:
        """Return the entries in their order, each once. To make a dictionary of a million in one go takes 0.1 s.

        Raises:
            ClientGoneError: the client has left meanwhile.
        """
        return {entry: None async for entry in self.each(entries)}

    async def answer(self, response: Response, *done_with: Any, wait_ms: int | None = None) -> None:
        """Send `response`; if its entries took more than one turn, a worker encodes it and frees both messages.

        Args:
            done_with: collections that the handler does not need any more, which the worker frees too.
            wait_ms: as for `reply`.
        """
        if self.turn is None or not self.turn.ended:
            self.reply(response, wait_ms)
            return
        self._hold_back(response, wait_ms)

        def encode() -> list[Chunk]:
            chunks = self._encoded(response)
            for value in (response, self.message, *done_with):
                release(value)
            return chunks

        encoded = await self.broker.lanes.run(self.nbytes, encode)
        # The worker may hold its result a moment longer, and with it the files whose slices are sent.
        chunks = encoded.copy()
        encoded.clear()
        self._count()
        self.is_answered = True
        self.connection.reply(chunks)

    def no_reply(self, wait_ms: int) -> None:
        """End a request that has no response (acks=0); its client is throttled for `wait_ms`."""
        if wait_ms > 0:
            self.connection.hold_back(wait_ms / 1000)
        self._count()
        self.is_answered = True
        self.connection.skip_reply()

    def drop(self) -> None:
        """Close the connection if no response is possible: none was requested, or serving the request failed.

        Earlier requests get their responses first, unless this one's was postponed: it has its place among theirs.
        """
        self._count()
        if self._postponed is None:
            self.connection.end()
        else:
            self.connection.close()

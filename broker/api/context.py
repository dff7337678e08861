"""What handlers are given: the broker's parts, and the request they answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from time import perf_counter
from typing import Any

from broker.api.fetch_session import FetchSessionCache
from broker.config.listeners import Endpoint
from broker.config.server import BrokerConfig
from broker.controller.configs import ConfigController
from broker.controller.producer_ids import ProducerIds
from broker.controller.topics import TopicController
from broker.coordinator.group.consumer_service import ConsumerGroups
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.transaction.service import Transactions
from broker.metadata.model import ClusterState
from broker.metadata.store import MetadataStore
from broker.metrics.counters import RequestCounter
from broker.net.connection import Connection
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.codec import RequestHeader, encode_response
from kafkalog.protocol.schema import Message, Response


class Broker:
    """The parts of a running broker that serve requests."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        broker_id: int,
        static_config: BrokerConfig,
        store: MetadataStore,
        replicas: ReplicaManager,
        now_ms: Callable[[], int],
    ) -> None:
        self.loop = loop
        self.broker_id = broker_id
        self.store = store
        self.replicas = replicas
        self.now_ms = now_ms
        self.topics = TopicController(store, replicas, [broker_id])
        self.configs = ConfigController(store, replicas, static_config, broker_id)
        self.producer_ids = ProducerIds(store)
        self.groups = GroupCoordinator(loop, replicas=replicas, topics=self.topics, now_ms=now_ms)
        self.consumer_groups = ConsumerGroups(self.groups, store)
        self.transactions = Transactions(
            replicas=replicas,
            topics=self.topics,
            allocate_producer_id=self.producer_ids.allocate,
            reserve_producer_ids=self.producer_ids.reserve,
            on_offsets=lambda marker, written: self.groups.on_marker(marker.producer_id, marker.committed, written),
            now_ms=now_ms,
        )
        self.fetch_sessions = FetchSessionCache(static_config["max.incremental.fetch.session.cache.slots"])
        self._named: tuple[ClusterState | None, dict[uuid.UUID, str]] = (None, {})
        self.endpoints: dict[str, Endpoint] = {}
        """Advertised endpoint of each listener, by its name."""
        self.log_starts_changed: Callable[[], None] = lambda: None
        """Called when clients deleted records, so that log start offsets are checkpointed soon."""

    @property
    def config(self) -> BrokerConfig:
        return self.replicas.config

    @property
    def cluster_id(self) -> str:
        return self.store.state.cluster_id

    def names_by_id(self) -> dict[uuid.UUID, str]:
        """Topic names by topic id, in the newest state of the registry."""
        state = self.store.state
        if self._named[0] is not state:
            self._named = (state, {topic.topic_id: topic.name for topic in state.topics.values()})
        return self._named[1]


class Request:
    """One request under way. Exactly one of ``reply``, ``no_reply`` and ``drop`` ends it."""

    __slots__ = ("_began", "_counter", "broker", "client_id", "connection", "correlation_id", "message", "version")

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        header: RequestHeader,
        message: Any,
        counter: RequestCounter,
        began: float,
    ) -> None:
        self.broker = broker
        self._counter = counter
        self._began = began
        self.connection = connection
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.message = message

    def reply(self, response: Response) -> None:
        """Send ``response`` in the request's version."""
        self._counter.answered(perf_counter() - self._began)
        self.connection.reply(encode_response(response, self.version, self.correlation_id))

    async def reply_large(self, response: Response) -> None:
        """Send a ``response`` of many entries, which a worker encodes while others are served. Ends both messages."""

        def encode() -> list[Any]:
            chunks = encode_response(response, self.version, self.correlation_id)
            _release(response)
            _release(self.message)
            return chunks

        chunks = await self.broker.loop.run_in_executor(None, encode)
        self._counter.answered(perf_counter() - self._began)
        self.connection.reply(chunks)

    def no_reply(self) -> None:
        """The request has no response (acks=0)."""
        self._counter.answered(perf_counter() - self._began)
        self.connection.skip_reply()

    def drop(self) -> None:
        """Close the connection: the only way to tell a client that asked for no response."""
        self._counter.answered(perf_counter() - self._began)
        self.connection.close()


def _release(message: Message) -> None:
    """Let go of a message's entries a few at a time: all at once, 300,000 of them hold up every thread for 50 ms."""
    for field in type(message).fields:
        entries = getattr(message, field.name)
        while isinstance(entries, list) and entries:
            del entries[-1000:]

"""Connections to leaders, with one request in flight on each, so that no leader waits for another.

Threads of their own open the connections: a leader that does not answer delays only its own partitions.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.threads import Worker
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.metadata import Broker
from kafkalog.client.network.connection import Connection
from kafkalog.client.network.waker import Waker
from kafkalog.protocol.schema import Request

Answered = Callable[[Any | None, Exception | None], None]
"""Takes a response, or the error that came instead."""


class _InFlight(NamedTuple):
    connection: Connection
    deadline: float
    answered: Answered


class LeaderConnections:
    """The connections of one fetcher. Only its thread uses them, except for `interrupt`. `waker` ends its waits."""

    def __init__(self, cluster: Cluster, waker: Waker) -> None:
        self._cluster, self._waker = cluster, waker
        self._connections: dict[int, tuple[Broker, Connection]] = {}
        self._connecting: dict[int, tuple[Broker, Future[Connection]]] = {}
        self._asked: dict[int, _InFlight] = {}

    def idle(self, broker: Broker) -> bool:
        """Tell whether no request to the broker is in flight."""
        return broker.node_id not in self._asked

    def connected(self, broker: Broker) -> Connection | None:
        """Return a connection, or None while it is being opened, or authenticated again.

        An error is raised once for each failed attempt; the next call begins another.

        Raises:
            ConnectionFailedError, ClientTimeoutError, AuthenticationError: `Connection` raises them.
        """
        known = self._connections.get(broker.node_id)
        if known is not None:
            at, connection = known
            if at == broker and not connection.closed and not (connection.authentication_due and self.idle(broker)):
                return connection
            del self._connections[broker.node_id]
            if at == broker and not connection.closed:
                self._begin(broker, partial(_renewed, connection))
                return None
            connection.close()
        under_way = self._connecting.get(broker.node_id)
        if under_way is not None and under_way[0] != broker:
            # The broker has moved to another address.
            under_way[1].add_done_callback(_discard)
            under_way = None
        if under_way is None:
            self._begin(broker, lambda: self._cluster.connect(broker))
            return None
        future = under_way[1]
        if not future.done():
            return None
        del self._connecting[broker.node_id]
        connection = future.result()
        self._connections[broker.node_id] = broker, connection
        return connection

    def _begin(self, broker: Broker, connect: Callable[[], Connection]) -> None:
        """Open or renew a connection on a thread of its own."""
        worker = Worker(f"kafkalog-consumer-connect-{broker.node_id}", self._waker.wake)
        self._connecting[broker.node_id] = broker, worker.submit(connect)
        worker.stop(0)

    def version_of(
        self, broker: Broker, request_class: type[Request], max_version: int | None, min_version: int
    ) -> int:
        """Choose the version for a broker that is `connected`; see `Connection.version_of`.

        Raises:
            UnsupportedVersionError: there is none.
        """
        return self._connections[broker.node_id][1].version_of(request_class, max_version, min_version)

    def send(
        self,
        broker: Broker,
        request: Request,
        answered: Answered,
        patience: float,
        *,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> None:
        """Send to a broker that is `idle` and `connected`; `wait` calls `answered` within `patience` seconds.

        Raises:
            ConnectionFailedError, ClientTimeoutError: `Connection` raises them.
        """
        _, connection = self._connections[broker.node_id]
        connection.send(request, min_version=min_version, max_version=max_version)
        late_at = max(time.monotonic(), connection.serves_at) + patience
        self._asked[broker.node_id] = _InFlight(connection, late_at, answered)

    def next_deadline(self) -> float:
        """Return when the first answer is late (`time.monotonic`)."""
        return min((each.deadline for each in self._asked.values()), default=float("inf"))

    def wait(self, timeout: float) -> None:
        """Receive the answers that come within `timeout` seconds; return with the first one, or when woken.

        A leader that stops in the middle of an answer delays no other: the part that has come is kept.
        """
        until = time.monotonic() + timeout
        if not self._receive([node_id for node_id, each in self._asked.items() if _has_come(each.connection)]):
            self._poll(until)
        now = time.monotonic()
        for node_id in [node_id for node_id, each in self._asked.items() if each.deadline < now]:
            connection, _, answered = self._asked.pop(node_id)
            connection.close()
            answered(None, ClientTimeoutError(f"{connection.address} did not answer in time"))

    def _poll(self, until: float) -> None:
        """Receive until the first answer is complete."""
        poller = select.poll()
        nodes = {each.connection.fileno(): node_id for node_id, each in self._asked.items()}
        for fileno in (*nodes, self._waker.fileno()):
            poller.register(fileno, select.POLLIN)
        while True:
            left = max(until - time.monotonic(), 0.0)
            come = {fileno for fileno, _ in poller.poll(left * 1000)}
            answered = self._receive([nodes[fileno] for fileno in come if fileno in nodes])
            if answered or not (come and left) or self._waker.fileno() in come:
                break
        self._waker.clear()

    def _receive(self, nodes: list[int]) -> bool:
        """Receive available data from these brokers; return whether an answer is complete."""
        ended = False
        for node_id in nodes:
            connection, _, answered = self._asked[node_id]
            response, failure = None, None
            try:
                response = connection.receive_now()
            except Exception as error:
                connection.close()
                failure = error
            if response is None and failure is None:
                continue
            del self._asked[node_id]
            ended = True
            answered(response, failure)
        return ended

    def interrupt(self) -> None:
        """Make requests under way fail; from another thread."""
        for _, connection in list(self._connections.values()):
            connection.interrupt()

    def close(self) -> None:
        """Close all connections, and those that are being opened."""
        for _, future in self._connecting.values():
            future.add_done_callback(_discard)
        for _, connection in self._connections.values():
            connection.close()


def _renewed(connection: Connection) -> Connection:
    connection.reauthenticate()
    return connection


def _has_come(connection: Connection) -> bool:
    return connection.closed or connection.readable()


def _discard(future: Future[Connection]) -> None:
    if future.exception() is None:
        future.result().close()

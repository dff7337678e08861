"""Channels: a connection to each leader, with the requests in flight on it.

Threads of their own open the connections: a broker that does not let clients in delays only its own partitions.
"""

from __future__ import annotations

import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from kafkalog.backoff import Backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ConnectionFailedError, InvalidResponseError
from kafkalog.client.metadata import Broker
from kafkalog.client.network.connection import Connection
from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.protocol.schema import Request

RENEWAL_S = 1.0
"""The time that a broker may take to authenticate the client again. Batches for other brokers wait meanwhile."""


class Channel:
    """The requests in flight to one broker.

    It connects when there is something to send. Only the sender's thread uses it; `wake` ends the thread's wait.
    """

    def __init__(
        self,
        node_id: int,
        config: ProducerConfig,
        cluster: Cluster,
        selector: selectors.BaseSelector,
        wake: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self._config = config
        self._cluster = cluster
        self._selector = selector
        self._wake = wake
        self._opening: Future[Connection] | None = None
        """The connection that a thread opens."""
        self._connection: Connection | None = None
        self._requests: deque[tuple[float, list[ProducerBatch]]] = deque()
        self._unsent_since = float("inf")
        """The time when the request was begun that the broker has not received completely (`time.monotonic`)."""
        self._unanswered: list[ProducerBatch] = []
        """The batches of an acks=0 request that is still being written."""
        self._backoff = Backoff(config.reconnect_backoff, config.reconnect_backoff_max)
        self._failures = 0
        self._retry_at = 0.0

    @property
    def name(self) -> str:
        """The broker's name in messages."""
        return f"broker {self.node_id}" + (f" at {self._connection.address}" if self._connection else "")

    def free_at(self) -> float:
        """Return when it takes another request (`time.monotonic`): a past time, the end of a pause, or infinity.

        Infinity means that some event must come first. A broker that serves nothing for a while, because the client is
        above a quota, gets no requests either (KIP-219).
        """
        connection = self._connection
        if self.unsent or len(self._requests) >= self._config.max_in_flight:
            return float("inf")
        if connection is None:
            is_opening = self._opening is not None and not self._opening.done()
            return float("inf") if is_opening else self._retry_at
        if self._requests and connection.authentication_due:
            # The client authenticates again before its next request, when nothing is in flight.
            return float("inf")
        return max(self._retry_at, connection.serves_at)

    @property
    def unsent(self) -> bool:
        """Return whether the broker has not received a request completely."""
        return self._unsent_since != float("inf")

    @property
    def busy(self) -> bool:
        """Return whether requests are in flight."""
        return bool(self._requests)

    def batches(self) -> Iterator[ProducerBatch]:
        """Yield the batches in flight."""
        for _, batches in self._requests:
            yield from batches
        yield from self._unanswered

    @property
    def sends_in_vain(self) -> bool:
        """Return whether the rest of a request is useless, because its batches were given up.

        The broker ignores a request that is not complete.
        """
        if not self.unsent:
            return False
        return all(batch.done for batch in self._unanswered or self._requests[-1][1])

    def deadline(self) -> float:
        """Return when the oldest request will have waited too long."""
        if self._connection is None or not (self._requests or self.unsent):
            return float("inf")
        oldest = self._requests[0][0] if self._requests else self._unsent_since
        return max(oldest, self._connection.serves_at) + self._config.client.request_timeout

    def timed_out(self, now: float) -> bool:
        """Tell whether the oldest request has waited too long."""
        return self.deadline() <= now

    def prepare(self) -> bool:
        """Return whether `send` has a connection to use, whose session lasts; if not, one is being opened.

        Raises:
            ConnectionFailedError, ClientTimeoutError, AuthenticationError: `Connection` raises them.
        """
        connection = self._connection
        if connection is not None and not self._requests and connection.readable():
            # The broker has closed the idle connection: do not try a request on it.
            self.close()
            connection = None
        if connection is None:
            return self._opened()
        if connection.authentication_due and not self._requests:
            connection.reauthenticate(timeout=min(RENEWAL_S, self._config.client.connect_timeout))
        return True

    def send(
        self, request: Request, batches: list[ProducerBatch], min_version: int, *, answered: bool, patience: float
    ) -> bool:
        """Send a request that carries `batches`, after `prepare`.

        Returns False where the broker has not received all of it within `patience` seconds; the selector reports when
        `send_rest` may continue. After an error the caller has the batches again.

        Raises:
            ConnectionFailedError, ClientTimeoutError: `Connection` raises them.
        """
        connection = self._connection
        assert connection is not None
        done = connection.send_now(request, min_version=min_version, answered=answered, patience=patience)
        now = time.monotonic()
        if answered:
            self._requests.append((now, batches))
        if not done:
            self._unsent_since = now
            self._unanswered = [] if answered else batches
            self._selector.modify(connection.fileno(), selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        return done

    def send_rest(self) -> list[ProducerBatch]:
        """Continue to send a request that the broker has not received completely.

        Returns its batches, once it is complete and has no response. Raises as `send` does.
        """
        connection = self._connection
        if connection is None or not self.unsent or not connection.send_rest():
            return []
        self._unsent_since = float("inf")
        self._selector.modify(connection.fileno(), selectors.EVENT_READ, self)
        sent, self._unanswered = self._unanswered, []
        return sent

    def _opened(self) -> bool:
        """Take the connection that was opened, and return True; else see that one is being opened."""
        if self._opening is None:
            # A channel remains when a broker moves to another address; metadata has the present one.
            known = self._cluster.metadata([]).brokers
            broker = known.get(self.node_id)
            if broker is None:
                raise ConnectionFailedError(f"the cluster names no broker {self.node_id} at present")
            opening: Future[Connection] = Future()
            self._opening = opening
            thread = threading.Thread(target=self._open, args=(broker, opening), name="kafkalog-connect", daemon=True)
            thread.start()
            return False
        if not self._opening.done():
            return False
        opening, self._opening = self._opening, None
        connection = opening.result()
        if connection.readable():
            # It was opened for batches that were given up, and the broker has closed it since.
            connection.close()
            return self._opened()
        self._selector.register(connection.fileno(), selectors.EVENT_READ, self)
        self._connection = connection
        self._failures = 0
        return True

    def _open(self, broker: Broker, opening: Future[Connection]) -> None:
        """Open a connection, in a thread of its own."""
        try:
            opening.set_result(self._cluster.connect(broker))
        except BaseException as error:
            opening.set_exception(error)
        self._wake()

    @property
    def connected(self) -> bool:
        """Return whether there is a connection."""
        return self._connection is not None

    def has_response(self) -> bool:
        """Tell whether a part of a response is there."""
        connection = self._connection
        if connection is None or connection.closed or not self._requests:
            return False
        return connection.readable()

    def receive(self) -> tuple[list[ProducerBatch], Any] | None:
        """Return the oldest request's batches and its response; None while the response is not complete.

        Raises as `Connection.receive` does.
        """
        assert self._connection is not None
        if not self._requests:
            # Nothing was asked, so the readable data is the end of the connection.
            raise ConnectionFailedError(f"{self.name} closed the connection")
        response = self._connection.receive_now()
        if response is not None and self.unsent and len(self._requests) == 1:
            raise InvalidResponseError(f"{self.name} answered a request that it has not received whole")
        return None if response is None else (self._requests.popleft()[1], response)

    def fail(self) -> list[ProducerBatch]:
        """Close the connection, and pause before the next one; return the batches that were in flight, oldest first."""
        batches = list(self.batches())
        self.close()
        self._failures += 1
        self._retry_at = time.monotonic() + self._backoff.pause(self._failures)
        return batches

    def close(self) -> None:
        """Close the connection and forget its requests."""
        self._requests.clear()
        self._unanswered = []
        self._unsent_since = float("inf")
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.add_done_callback(_discard)
        connection, self._connection = self._connection, None
        if connection is not None:
            for key in [key for key in self._selector.get_map().values() if key.data is self]:
                self._selector.unregister(key.fileobj)
            connection.close()


def _discard(opening: Future[Connection]) -> None:
    if opening.exception() is None:
        opening.result().close()

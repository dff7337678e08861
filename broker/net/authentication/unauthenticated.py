"""The connections whose clients are not authenticated yet: how long they may take, and how many there may be.

Apache Kafka has no other limit than `connections.max.idle.ms`. Somebody without an account could fill a broker with
connections, then. Here a connection is closed if its client is not authenticated in time. If there are too many, the
oldest one is closed in favour of the new one: the clients of most of them are authenticated within milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from broker.net.connection import Connection
from broker.net.limits.told import Told
from broker.net.sockets.event_loop import Clock, Timer


class UnauthenticatedConnections:
    """See the module. Used on the event loop's thread only.

    Args:
        clock: the time, and timers.
        timeout: returns the seconds within which a client has to authenticate.
        most: returns the most connections that may be without an authenticated client.
        told: says in the log what is closed.
    """

    def __init__(self, clock: Clock, timeout: Callable[[], float], most: Callable[[], int], told: Told) -> None:
        self._clock = clock
        self._timeout = timeout
        self._most = most
        self._told = told
        self._due: dict[Connection, float] = {}
        """The connections by age, each with the time at which it is closed."""
        self._per_peer: Counter[str] = Counter()
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._due)

    def add(self, connection: Connection) -> None:
        """Add a new connection. Close another one if there are too many, of the address that has the most."""
        if len(self._due) >= self._most():
            self._make_room()
        self._due[connection] = self._clock.time() + self._timeout()
        self._per_peer[connection.peer] += 1
        self._set_timer()

    def remove(self, connection: Connection) -> None:
        """Forget a connection, because its client is authenticated or it is closed. Others are not known here."""
        if self._due.pop(connection, None) is None:
            return
        self._per_peer[connection.peer] -= 1
        if not self._per_peer[connection.peer]:
            del self._per_peer[connection.peer]

    def close(self) -> None:
        """End the timer, because the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_room(self) -> None:
        address, _ = max(self._per_peer.items(), key=lambda pair: pair[1])
        oldest = next(each for each in self._due if each.peer == address)
        self._told.warn(
            address,
            "too many",
            "closing connection from %s on %s: there are more than %d connections whose clients have not authenticated "
            "(kafkalog.max.unauthenticated.connections)",
            address,
            oldest.endpoint.name,
            self._most(),
        )
        self._drop(oldest)

    def _drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.close()

    def _set_timer(self) -> None:
        if self._timer is None and self._due:
            first = next(iter(self._due.values()))
            self._timer = self._clock.call_later(max(0.0, first - self._clock.time()), self._close_late)

    def _close_late(self) -> None:
        self._timer = None
        now = self._clock.time()
        for connection in [each for each, due in self._due.items() if due <= now]:
            self._told.warn(
                connection.peer,
                "late",
                "closing connection from %s on %s: its client did not authenticate in time "
                "(kafkalog.authentication.timeout.ms): it sends nothing, or its security.protocol lacks SASL or TLS",
                connection.peer,
                connection.endpoint.name,
            )
            self._drop(connection)
        self._set_timer()

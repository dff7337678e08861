"""Accepts connections on all listeners, within limits, and closes idle ones."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from broker.config.listeners import Endpoint
from broker.config.server import BrokerConfig
from broker.net.connection import Connection, Dispatcher
from broker.net.disk_reads import DiskReads
from broker.net.limits.address_limits import AddressLimits
from broker.net.limits.memory import RequestMemory
from broker.net.limits.told import Told
from broker.net.session import Session
from broker.net.sockets.listener import IncomingConnection, Listener
from broker.net.sockets.network import Network
from broker.net.transport.interface import Transport
from broker.quota.connections import ConnectionRates
from broker.quota.entities import MAX_INT

logger = logging.getLogger(__name__)

ACCEPTS_PER_EVENT = 64
ACCEPT_RETRY_SECONDS = 1.0
QUIET_SECONDS = 10.0
"""After so many seconds without traffic, a connection gives back the memory of its buffer."""
REFUSED_PER_ADDRESS, MAX_REFUSED = 4, 64
"""The most refused connections that stay open for a while, for each address and in all: they use file descriptors."""
RESERVED_DESCRIPTORS = 256
"""File descriptors that connections leave free for the log, at most. A log directory that cannot open a file fails."""


class Gate(Dispatcher, Protocol):
    """Stands in front of the dispatcher until the client of a connection is authenticated."""

    def guard(self, connection: Connection, /) -> None:
        """Begin to guard a new connection, whose dispatcher it is."""


class Gates(Protocol):
    """Makes gates for the listeners that need them."""

    def gate(self, endpoint: Endpoint, /) -> Gate | None:
        """Make the gate of a new connection; None if its listener asks for no authentication."""

    def closed(self, connection: Connection, /) -> None:
        """Forget a connection that is closed."""


class Encryption(Protocol):
    """Encrypts the connections of listeners that ask for it."""

    def secure(self, transport: Transport, session: Session, /) -> Transport:
        """Return the transport to serve a new connection by."""

    def guard(self, connection: Connection, /) -> None:
        """Limit how long a new connection may take, and how many there are, until its peers have shaken hands."""

    def closed(self, connection: Connection, /) -> None:
        """Forget a connection that is closed."""


class NoGates:
    """No listener asks for authentication."""

    def gate(self, endpoint: Endpoint) -> None:
        """Return None."""

    def closed(self, connection: Connection) -> None:
        """Do nothing."""


class Acceptor:
    """All listeners of a broker and the connections that came through them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        config: Callable[[], BrokerConfig],
        dispatcher: Dispatcher,
        rates: ConnectionRates,
        disk: DiskReads,
        now_ms: Callable[[], int],
        gates: Gates,
        encryption: Encryption | None = None,
    ) -> None:
        self._encryption = encryption
        self._told = Told(loop, logger)
        self._loop = loop
        self._network = network
        self._current_config = config
        self._dispatcher = dispatcher
        self._rates = rates
        self._disk = disk
        self._now_ms = now_ms
        self._gates = gates
        self._refused: dict[IncomingConnection, asyncio.TimerHandle] = {}
        """Connections above their address's rate. They stay open and unserved until these timers close them."""
        self._refused_from: Counter[str] = Counter()
        self.memory = RequestMemory(self._config["queued.max.request.bytes"])
        self._retries: dict[Listener, asyncio.TimerHandle] = {}
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY:
            limit = sys.maxsize
        self._max_descriptor = limit - min(RESERVED_DESCRIPTORS, limit // 4)
        self._sockets: list[tuple[Listener, Endpoint]] = []
        self._per_address: Counter[str] = Counter()
        self._limits = AddressLimits(loop, network, config)
        self._sweep: asyncio.TimerHandle | None = None
        self.connections: dict[Connection, None] = {}

    def count_by_listener(self) -> dict[str, int]:
        """Return the number of open connections by the listener's name. Any thread may call this."""
        counts = {endpoint.name: 0 for _, endpoint in list(self._sockets)}
        for connection in list(self.connections):
            counts[connection.endpoint.name] = counts.get(connection.endpoint.name, 0) + 1
        return counts

    @property
    def _config(self) -> BrokerConfig:
        return self._current_config()

    def bind(self) -> list[Endpoint]:
        """Bind every listener without accepting yet; return the endpoints with their real ports.

        Raises:
            ConfigError: an address cannot be bound.
        """
        for endpoint in self._config.listeners:
            listener = self._network.listen(endpoint, self._config["socket.listen.backlog.size"])
            self._sockets.append((listener, endpoint.with_port(listener.port)))
        return [endpoint for _, endpoint in self._sockets]

    def start(self) -> None:
        """Begin to accept connections."""
        self._limits.start()
        for listener, endpoint in self._sockets:
            self._watch(listener, endpoint)
        self._schedule_sweep()

    def stop_accepting(self) -> None:
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        for listener, _ in self._sockets:
            listener.unwatch()
            listener.close()
        self._sockets.clear()
        for incoming, closing in self._refused.items():
            closing.cancel()
            incoming.close()
        self._refused.clear()

    async def close(self, timeout: float) -> None:
        """Let responses under way finish for at most `timeout` seconds, then close every connection."""
        self.stop_accepting()
        self._limits.close()
        if self._sweep is not None:
            self._sweep.cancel()
        deadline = self._loop.time() + timeout
        while any(not c.drained and not c.waits for c in self.connections) and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.close()

    def _watch(self, listener: Listener, endpoint: Endpoint) -> None:
        listener.watch(lambda: self._accept(listener, endpoint))

    def _accept(self, listener: Listener, endpoint: Endpoint) -> None:
        for _ in range(ACCEPTS_PER_EVENT):
            try:
                incoming = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of file descriptors: serve the connections we have and try again later. Until one of them is
                # closed, the listening socket stays readable, and reacting to it each time would use a whole processor.
                logger.error("cannot accept a connection on %s, trying again in a second: %s", endpoint, error)
                self._pause(listener, endpoint)
                return
            # The system gives the lowest free descriptor, so this one tells how many are in use.
            if incoming.descriptor >= self._max_descriptor:
                incoming.close()
                logger.error("refusing connections on %s: too few file descriptors are left (ulimit -n)", endpoint)
                self._pause(listener, endpoint)
                return
            if not self._admit(incoming.peer, endpoint):
                incoming.close()
                continue
            refused_ms = self._rates.refused_ms(incoming.peer, self._now_ms())
            if refused_ms:
                self._refuse(incoming, refused_ms / 1000)
                continue
            if len(self.connections) >= self._config["max.connections"]:
                self._close_client()
            self._open(incoming, endpoint)
            if self._beyond_rate(listener, endpoint):
                return

    def _beyond_rate(self, listener: Listener, endpoint: Endpoint) -> bool:
        """Pause accepting if connections come faster than `max.connection.creation.rate`; return whether it did."""
        if self._is_protected(endpoint):
            return False
        limit = self._config["max.connection.creation.rate"]
        paused_ms = self._rates.paused_ms(limit, self._now_ms()) if limit < MAX_INT else 0
        if paused_ms:
            self._pause(listener, endpoint, paused_ms / 1000)
        return paused_ms > 0

    def _refuse(self, incoming: IncomingConnection, seconds: float) -> None:
        """Close a refused connection after `seconds`, because its client would otherwise reconnect at once.

        Close it now if its address, or the broker, already has as many refused connections open as it may.
        """
        address = incoming.peer
        if self._refused_from[address] >= REFUSED_PER_ADDRESS or len(self._refused) >= MAX_REFUSED:
            incoming.close()
            return

        def close() -> None:
            del self._refused[incoming]
            self._refused_from[address] -= 1
            if not self._refused_from[address]:
                del self._refused_from[address]
            incoming.close()

        self._refused_from[address] += 1
        self._refused[incoming] = self._loop.call_later(seconds, close)

    def _pause(self, listener: Listener, endpoint: Endpoint, seconds: float = ACCEPT_RETRY_SECONDS) -> None:
        listener.unwatch()

        def resume() -> None:
            del self._retries[listener]
            self._watch(listener, endpoint)

        self._retries[listener] = self._loop.call_later(seconds, resume)

    def _is_protected(self, endpoint: Endpoint) -> bool:
        """Return whether only brokers connect to a listener: it is the one between brokers, and not the only one.

        Limits of all connections are for clients, which could lock the controller and followers out otherwise. (Kafka's
        `ConnectionQuotas.protectedListener`)
        """
        return len(self._sockets) > 1 and endpoint.name == self._config.inter_broker_listener

    def _admit(self, address: str, endpoint: Endpoint) -> bool:
        most = self._limits.of(address)
        if self._per_address[address] >= most:
            text = "refusing connection from %s: it has as many as its limit allows, %d"
            self._told.warn(address, "refused", text, address, most)
            return False
        if len(self.connections) < self._config["max.connections"]:
            return True
        if not self._is_protected(endpoint):
            self._told.warn(address, "refused", "refusing connection from %s: max.connections is reached", address)
            return False
        return True

    def _close_client(self) -> None:
        """Close the connection of a client that was idle for longest, if there is one."""
        of_clients = [each for each in self.connections if not self._is_protected(each.endpoint)]
        idlest = min(of_clients, key=Connection.idle_since, default=None)
        if idlest is not None:
            logger.warning("closing the connection from %s: max.connections is reached", idlest.peer)
            idlest.close()

    def _open(self, incoming: IncomingConnection, endpoint: Endpoint) -> None:
        config = self._config
        try:
            transport = incoming.open(config["socket.send.buffer.bytes"], config["socket.receive.buffer.bytes"])
        except OSError:
            return
        self.connect(transport, endpoint)

    def connect(self, transport: Transport, endpoint: Endpoint) -> None:
        """Serve a peer that connected to a listener."""
        session = Session(endpoint, transport.peer)
        if self._encryption is not None:
            transport = self._encryption.secure(transport, session)
        gate = self._gates.gate(endpoint)
        connection = Connection(
            self._loop, transport, session, gate or self._dispatcher, self.memory, self._disk,
            self._config["socket.request.max.bytes"], self._closed, self._told.warn,
        )  # fmt: skip
        self.connections[connection] = None
        self._per_address[connection.peer] += 1
        if self._encryption is not None:
            self._encryption.guard(connection)
        if gate is not None and not connection.closed:
            gate.guard(connection)

    def _closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._gates.closed(connection)
        if self._encryption is not None:
            self._encryption.closed(connection)
        self._per_address[connection.peer] -= 1
        if self._per_address[connection.peer] <= 0:
            del self._per_address[connection.peer]

    def _schedule_sweep(self) -> None:
        idle = self._config["connections.max.idle.ms"] / 1000
        self._sweep = self._loop.call_later(min(max(idle / 10, 0.05), 30) if idle > 0 else 30, self._close_idle)

    def _close_idle(self) -> None:
        idle = self._config["connections.max.idle.ms"] / 1000
        now = self._loop.time()
        for connection in list(self.connections):
            quiet = now - connection.idle_since()
            if idle > 0 and quiet > idle:
                connection.close()
            elif quiet > QUIET_SECONDS:
                connection.trim()
        self._schedule_sweep()

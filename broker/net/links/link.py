"""A broker's link to another broker, on the event loop: requests go out, and futures get their responses.

A `Link` belongs to one address. It connects when there is something to send, negotiates versions, authenticates where
that is configured, and keeps a bounded number of requests in flight, in the order of `send` calls. After a failure it
reconnects, with a growing pause between attempts. Where a response has a `throttle_time_ms`, nothing is sent on the
connection for so long (KIP-219). The protocol is implemented by `kafkalog.protocol.wire`. Each response is received
directly into its own buffer, and the records in it are views of that buffer.

A link never sends a request twice. When a connection fails, all requests that wait for it fail too, and the caller
decides what to do. Whether the peer acted on a request that was in flight is unknown.

The kind of error matters to a cluster. `LinkRefusedError` is evidence that no process listens at the address.
`LinkTimeoutError` is evidence of nothing: the peer may be slow, or the network between.

A link is given everything it uses: the event loop with its clock, workers for long computations, a random number
generator for the pauses, and a `Dialer` that opens connections. Call its methods on the loop's thread only.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.net.links.link_channel import Channel
from broker.net.links.link_errors import (
    LinkAuthenticationError,
    LinkBrokenError,
    LinkClosedError,
    LinkError,
    LinkFullError,
    LinkRefusedError,
    LinkTimeoutError,
)
from broker.net.sockets.network import Dialer, LoopNetwork
from broker.security.sasl.broker_login import BrokerLogin, NoCredentialsError
from broker.system.workers import Workers
from kafkalog import __version__
from kafkalog.backoff import Backoff
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.primitives import EncodeError
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.core import Wire
from kafkalog.protocol.wire.sasl import Mechanism


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of a link; durations in seconds."""

    client_id: str
    """The client id in each request's header."""
    connect_timeout: float = 10.0
    """For opening a connection, negotiation and authentication together."""
    request_timeout: float = 30.0
    """From the call of `send` to the response, unless the call names another time."""
    max_response_bytes: int = 100 << 20
    """A longer response closes the connection before memory is taken for it."""
    max_in_flight: int = 5
    """The number of requests that may await their responses; further ones are queued."""
    max_waiting: int = 1000
    """The number of requests that may be queued; further ones are refused."""
    backoff: float = 0.05
    """The pause after the first failed attempt to connect; it doubles with each one that follows."""
    backoff_max: float = 1.0
    """The longest pause."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that is queued and not sent yet. Without a message, it is a call of `connect`."""

    message: Request | None
    max_version: int | None
    min_version: int
    response: asyncio.Future[Any]

    @property
    def name(self) -> str:
        return "nothing" if self.message is None else ApiKey(self.message.api_key).name


class Link:
    """Send requests to the broker at `host`:`port`.

    Args:
        host: The peer's host.
        port: The peer's port.
        settings: How the link behaves.
        loop: The event loop on which it runs.
        workers: Computes SCRAM's proofs, and gets credentials.
        chance: Varies the pauses, so that links do not all reconnect at the same moment.
        network: Opens connections; the loop's own sockets by default.
        login: Makes a SASL mechanism for each connection, where the listener wants SASL.

    Attributes:
        on_lost: Called at once when a connection has ended. It is not called if this side has closed the connection
            because a response did not come in time, or because the link is not needed any more.
    """

    def __init__(
        self,
        host: str,
        port: int,
        settings: LinkSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
        chance: random.Random,
        network: Dialer | None = None,
        login: BrokerLogin | None = None,
    ) -> None:
        self.peer = f"{host}:{port}"
        self.on_lost: Callable[[], None] = lambda: None
        self._host = host
        self._port = port
        self._settings = settings
        self._backoff = Backoff(settings.backoff, settings.backoff_max)
        self._loop = loop
        self._workers = workers
        self._chance = chance
        self._network = LoopNetwork(loop) if network is None else network
        self._login = login
        self._waiting: deque[_Waiting] = deque()
        self._channel: Channel | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._last_failure: LinkError | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "connected" if self.connected else "not connected"
        return f"Link({self.peer}, {state}, {self.in_flight} in flight, {self.waiting} waiting)"

    @property
    def connected(self) -> bool:
        """Return whether there is a connection that requests can be sent on."""
        return self._channel is not None

    @property
    def in_flight(self) -> int:
        """The number of requests that were sent and have no response yet."""
        return 0 if self._channel is None else self._channel.in_flight

    @property
    def waiting(self) -> int:
        """The number of requests that are not sent yet; `max_waiting` bounds it."""
        return len(self._waiting)

    def version_of(self, request_class: type[Request], max_version: int | None = None, min_version: int = 0) -> int:
        """Choose the newest version that both sides speak, within the bounds given.

        Raises:
            LinkBrokenError: There is no connection at present; `connect` makes one.
            UnsupportedVersionError: There is no such version.
        """
        if self._channel is None:
            raise LinkBrokenError(f"no connection to {self.peer}")
        return self._channel.version_of(request_class, max_version, min_version)

    async def connect(self, *, timeout: float | None = None) -> None:
        """Wait until there is a connection, opening one if needed. Raises the errors that `send` lists."""
        await self._give(_Waiting(None, None, 0, self._loop.create_future()), timeout)

    async def request(
        self, message: Request, *, timeout: float | None = None, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        """Send a request and wait for its response; see `send`."""
        return await self.send(message, timeout=timeout, max_version=max_version, min_version=min_version)

    def send(
        self, message: Request, *, timeout: float | None = None, max_version: int | None = None, min_version: int = 0
    ) -> asyncio.Future[Any]:
        """Send a request as soon as its turn comes.

        Cancelling the future drops a request that is not sent yet; if it is sent already, its response is dropped.
        Error codes in the response are left to the caller.

        Args:
            message: The request; it must not change until the response has come.
            timeout: Seconds from now to the response; the link's `request_timeout` unless given.
            max_version: The newest version to speak.
            min_version: The oldest version to speak.

        Returns:
            A future of the response. Its exception is a `LinkError`, an `UnsupportedVersionError` if the two sides
            share no version, or an `EncodeError` for a value that does not fit its field.

        Raises:
            LinkClosedError: The link was closed before.
            LinkFullError: `max_waiting` requests wait to be sent already.
        """
        return self._give(_Waiting(message, max_version, min_version, self._loop.create_future()), timeout)

    async def close(self) -> None:
        """Close the connection and fail all waiting requests; return once none of the link's tasks runs any more."""
        self._closed = True
        failure = LinkClosedError(f"the link to {self.peer} was closed")
        connecting, channel = self._connecting, self._channel
        self._fail_waiting(failure)
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait([connecting])
        if channel is not None:
            channel.fail(failure)
            await channel.closed

    # Requests

    def _give(self, request: _Waiting, timeout: float | None) -> asyncio.Future[Any]:
        if self._closed:
            raise LinkClosedError(f"the link to {self.peer} was closed")
        self._check_room()
        patience = self._settings.request_timeout if timeout is None else timeout
        timer = self._loop.call_later(patience, self._time_out, request)

        def settle(response: asyncio.Future[Any]) -> None:
            # A request that the caller cancels in flight still occupies the connection, so its timer has to stay.
            if not response.cancelled():
                timer.cancel()

        request.response.add_done_callback(settle)
        self._waiting.append(request)
        self._pump()
        return request.response

    def _check_room(self) -> None:
        most = self._settings.max_waiting
        if len(self._waiting) >= most:
            # Those that their callers have given up need no room.
            self._waiting = deque(request for request in self._waiting if not request.response.done())
        if len(self._waiting) >= most:
            raise LinkFullError(
                f"{most} requests to {self.peer} wait to be sent, which is the bound (max_waiting): send more when "
                "some of them are answered"
            )

    def _pump(self) -> None:
        """Send the requests that may be sent now; start connecting if there is no connection."""
        waiting = self._waiting
        while waiting:
            request = waiting[0]
            if request.response.done():
                waiting.popleft()
                continue
            channel = self._channel
            if channel is not None and channel.expired and not channel.in_flight:
                self._channel = None
                channel.fail(LinkBrokenError(f"the session with {self.peer} ends"))
                channel = None
            if channel is None:
                if self._connecting is None:
                    self._connecting = self._loop.create_task(self._connect())
                return
            if not channel.ready or channel.expired or channel.in_flight >= self._settings.max_in_flight:
                return
            waiting.popleft()
            self._send(channel, request)

    def _send(self, channel: Channel, request: _Waiting) -> None:
        message, response = request.message, request.response
        if message is None:
            response.set_result(None)
            return
        try:
            version = channel.version_of(type(message), request.max_version, request.min_version)
            channel.send(message, version, response)
        except (UnsupportedVersionError, EncodeError) as error:
            response.set_exception(error)

    def _time_out(self, request: _Waiting) -> None:
        """Fail a request whose deadline has passed.

        If it is in flight, close its connection, because later responses would have to wait for its response.
        """
        channel, response = self._channel, request.response
        if request in self._waiting:
            self._waiting.remove(request)
            if not response.done():
                pause = (
                    ": it asked this side to wait (throttle_time_ms)" if channel is not None and channel.paused else ""
                )
                failure = LinkTimeoutError(f"{request.name} could not be sent to {self.peer} in time{pause}")
                failure.__cause__ = self._last_failure
                response.set_exception(failure)
        elif channel is not None and channel.holds(response):
            what = f"{self.peer} did not answer {request.name} in time"
            if not response.done():
                response.set_exception(LinkTimeoutError(what))
            channel.fail(LinkTimeoutError(f"{what}, so that the connection was closed"))

    def _fail_waiting(self, failure: LinkError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if not request.response.done():
                request.response.set_exception(failure.copy())

    # Connections

    def _changed(self, channel: Channel) -> None:
        """React to a channel that has room for a request or has failed."""
        if channel is not self._channel:
            # It is still being opened, and `_open` handles its failure; or it was replaced.
            return
        if channel.failure is not None:
            self._channel = None
            self._note_failure(channel.failure)
            if not isinstance(channel.failure, LinkTimeoutError):
                self.on_lost()
        self._pump()

    def _note_failure(self, failure: LinkError) -> None:
        self._failures += 1
        self._retry_at = self._loop.time() + self._backoff.pause(self._failures, self._chance)
        self._last_failure = failure
        self._fail_waiting(failure)

    async def _connect(self) -> None:
        try:
            await asyncio.sleep(self._retry_at - self._loop.time())
            channel = await self._open()
        except LinkError as failure:
            self._connecting = None
            self._note_failure(failure)
        except Exception as error:
            self._connecting = None
            self._note_failure(LinkBrokenError(f"connecting to {self.peer} failed: {error!r}"))
            raise
        else:
            self._connecting = None
            self._channel = channel
            self._failures = 0
            self._last_failure = None
            self._pump()

    async def _mechanism(self) -> Mechanism | None:
        if self._login is None:
            return None
        timeout = self._settings.connect_timeout
        try:
            async with asyncio.timeout(timeout):
                return await self._login.mechanism(self._host, timeout, self._workers)
        except TimeoutError as error:
            raise LinkTimeoutError(f"no credentials to log in to {self.peer} came in time") from error
        except NoCredentialsError as error:
            raise LinkAuthenticationError(f"cannot log in to {self.peer}: {error}") from error

    async def _open(self) -> Channel:
        settings = self._settings
        wire = Wire(
            self.peer,
            client_id=settings.client_id,
            max_frame=settings.max_response_bytes,
            max_frame_name="the link's limit",
            mechanism=await self._mechanism(),
            software_version=__version__,
        )
        channel = Channel(self._loop, wire, lambda: self._changed(channel))
        try:
            async with asyncio.timeout(settings.connect_timeout):
                await self._network.connect(lambda: channel, self._host, self._port)
                await channel.shake_hands(self._workers)
        except TimeoutError as error:
            what = f"no connection to {self.peer} in time"
            if channel.connected:
                what = f"{self.peer} did not answer {wire.awaited} in time"
            failure = LinkTimeoutError(what)
            channel.fail(failure)
            raise failure from error
        except ConnectionRefusedError as error:
            raise LinkRefusedError(f"{self.peer} refuses connections") from error
        except OSError as error:
            raise LinkBrokenError(f"cannot connect to {self.peer}: {error.strerror or error}") from error
        except asyncio.CancelledError:
            channel.fail(LinkClosedError(f"the link to {self.peer} was closed"))
            raise
        except LinkError:
            raise
        except Exception as error:
            channel.fail(LinkBrokenError(f"connecting to {self.peer} failed: {error!r}"))
            raise
        return channel

"""Connections to other brokers over TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

from broker.net.sockets.network import Dialer

P = TypeVar("P", bound=asyncio.BaseProtocol)


class TlsDialer:
    """A `Dialer` that puts TLS on the connections of another one.

    Args:
        loop: the event loop.
        dialer: opens the connections.
        context: returns what a new connection uses.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dialer: Dialer, context: Callable[[], ssl.SSLContext]) -> None:
        self._loop = loop
        self._dialer = dialer
        self._context = context

    async def connect(self, make_protocol: Callable[[], P], host: str, port: int) -> tuple[asyncio.Transport, P]:
        """See `Dialer`. An `ssl.SSLError` is an `OSError`, too."""
        carrier, _ = await self._dialer.connect(asyncio.Protocol, host, port)
        protocol = make_protocol()
        try:
            over_tls = await self._loop.start_tls(carrier, protocol, self._context(), server_hostname=host)
        except BaseException:
            carrier.abort()
            raise
        if over_tls is None:
            raise ConnectionResetError("the peer has closed the connection during the handshake")
        assert isinstance(over_tls, asyncio.Transport)
        transport = _Abortable(carrier, over_tls)
        # A transport that was upgraded does not tell its protocol.
        protocol.connection_made(transport)
        return transport, protocol


class _Abortable(asyncio.Transport):
    """A transport over TLS that may be aborted while it calls its protocol. asyncio's own raises an error then.

    Args:
        carrier: carries the encrypted bytes.
        over_tls: asyncio's transport.
    """

    def __init__(self, carrier: asyncio.Transport, over_tls: asyncio.Transport) -> None:
        super().__init__()
        self._carrier = carrier
        self._over_tls = over_tls
        self.write = over_tls.write  # type: ignore[method-assign]
        self.pause_reading = over_tls.pause_reading  # type: ignore[method-assign]
        self.resume_reading = over_tls.resume_reading  # type: ignore[method-assign]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._over_tls.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._over_tls.is_closing()

    def close(self) -> None:
        self._over_tls.close()

    def abort(self) -> None:
        self._carrier.abort()

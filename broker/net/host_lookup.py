"""Addresses of hosts: a name server that does not answer keeps nothing else waiting, and is not waited for for long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterable

logger = logging.getLogger("kafkalog.broker.net")

PATIENCE_S = 5.0
"""How long a name server may take; who asks for many names waits no longer for all of them."""
AT_ONCE = 4


class HostLookup:
    """Looks up addresses on threads of its own, few at once, which a stop does not wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patience_s: float = PATIENCE_S) -> None:
        self._loop = loop
        self._patience_s = patience_s
        self._free = asyncio.Semaphore(AT_ONCE)

    async def addresses_of(self, hosts: Iterable[str]) -> dict[str, str]:
        """The first address of each host that has one and is found in time."""
        found: dict[str, str] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                for host in dict.fromkeys(hosts):
                    address = await self._address_of(host)
                    if address is not None:
                        found[host] = address
        return found

    async def _address_of(self, host: str) -> str | None:
        await self._free.acquire()
        answer: asyncio.Future[str | None] = self._loop.create_future()

        def settle(address: str | None) -> None:
            # The slot is the thread's, which goes on though nobody waits for it any more.
            self._free.release()
            if not answer.done():
                answer.set_result(address)

        def ask() -> None:
            address = _look_up(host)
            # The loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(settle, address)

        try:
            threading.Thread(target=ask, name=f"kafkalog-lookup-{host}"[:60], daemon=True).start()
        except RuntimeError as error:
            logger.warning("the address of %s cannot be looked up: %s", host, error)
            settle(None)
        return await answer


def _look_up(host: str) -> str | None:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return None

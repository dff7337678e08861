"""Looks up the addresses of hosts, for a bounded time, without blocking the event loop or its workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterable

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time that one call of `HostLookup.addresses_of` waits for the name server, for all of its names together."""
AT_ONCE = 4


class HostLookup:
    """Look up addresses on daemon threads, at most `AT_ONCE` at a time. Stopping the broker does not wait for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patience_s: float = PATIENCE_S) -> None:
        self._loop = loop
        self._patience_s = patience_s
        self._free = asyncio.Semaphore(AT_ONCE)

    async def addresses_of(self, hosts: Iterable[str]) -> dict[str, str]:
        """Return the first address of each host that has one and is found in time."""
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
            # The slot belongs to the thread, which keeps running even when nobody waits for it any more.
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

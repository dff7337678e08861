"""Limits of the connections of one address: `max.connections.per.ip` and its overrides."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Collection

from broker.config.listeners import parse_connection_overrides
from broker.config.server import BrokerConfig
from broker.net.sockets.network import Network

logger = logging.getLogger(__name__)

_OVERRIDES = "max.connections.per.ip.overrides"


LOOK_UP_AGAIN_S = 60.0
"""The pause before a name that was not found is looked up again."""


class AddressLimits:
    """The limits by the present configuration. The names of hosts in it are looked up in the background.

    `start` begins, before the first connection; `close` ends what is under way.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, network: Network, config: Callable[[], BrokerConfig]) -> None:
        self._loop, self._network, self._config = loop, network, config
        self._text = ""
        self._overrides: dict[str, int] = {}
        self._looking_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the overrides, unless that is done already."""
        text = self._config()[_OVERRIDES]
        if text != self._text:
            self._text = text
            self._read(parse_connection_overrides(_OVERRIDES, text))

    def close(self) -> None:
        """Look up no more names."""
        if self._looking_up is not None:
            self._looking_up.cancel()
            self._looking_up = None

    def of(self, address: str) -> int:
        """Return the most connections that a peer's address may have."""
        self.start()
        config = self._config()
        return self._overrides.get(address, int(config["max.connections.per.ip"]))

    def _read(self, counts: dict[str, int]) -> None:
        addresses = {host: address for host in counts if (address := _address(host)) is not None}
        self._overrides = {address: counts[host] for host, address in addresses.items()}
        self.close()
        if names := counts.keys() - addresses.keys():
            self._looking_up = self._loop.create_task(self._look_up({name: counts[name] for name in names}))

    async def _look_up(self, counts: dict[str, int]) -> None:
        left = set(counts)
        while left:
            found = await self._network.addresses_of(left)
            self._overrides |= {address: counts[name] for name, address in found.items()}
            left -= found.keys()
            if left:
                _warn(left)
                await asyncio.sleep(LOOK_UP_AGAIN_S)


def _address(host: str) -> str | None:
    """Return an IP address in the form in which sockets tell it; None for a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _warn(names: Collection[str]) -> None:
    logger.warning(
        "%s: no address of %s was found; max.connections.per.ip counts", _OVERRIDES, ", ".join(sorted(names))
    )

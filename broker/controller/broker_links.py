"""Links to the other brokers of a cluster, one for each broker, for one purpose."""

from __future__ import annotations

import asyncio

from broker.cluster_links import Connect
from broker.metadata.model import BrokerRegistration
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkClosedError


class BrokerLinks:
    """Links to the other brokers, one for each. Used on the event loop's thread only.

    A link is replaced when its broker has other addresses.

    Args:
        connect: makes a link.
        purpose: what the links are for, in a word.
    """

    def __init__(self, connect: Connect, purpose: str) -> None:
        self._connect = connect
        self._purpose = purpose
        self._links: dict[int, tuple[BrokerRegistration, Link]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def to(self, broker: BrokerRegistration) -> Link:
        """Return the link to a broker.

        Raises:
            LinkError: the broker has no listener for other brokers, or the links were closed.
        """
        if self._is_closed:
            # Whoever fails by that, and tries again, would leave a connection behind.
            raise LinkClosedError(f"the links for {self._purpose} were closed")
        known = self._links.get(broker.broker_id)
        if known is not None and known[0].endpoints == broker.endpoints:
            return known[1]
        link = self._connect(broker, self._purpose)
        if known is not None:
            self._close(known[1])
        self._links[broker.broker_id] = broker, link
        return link

    def _close(self, link: Link) -> None:
        closing = asyncio.get_running_loop().create_task(link.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all links; requests that wait for answers fail."""
        self._is_closed = True
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for _, link in links.values()), *self._closing)

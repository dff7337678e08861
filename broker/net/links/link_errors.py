"""The errors of a request to another broker.

The kinds differ in what they prove. `LinkRefusedError` alone is evidence that no process listens at the address.
"""

from __future__ import annotations

from typing import Self


class LinkError(Exception):
    """Base of the errors of a `Link`; the message names the peer."""

    def copy(self) -> Self:
        """Make an error with the same message for another waiter; this one is its cause."""
        made = type(self)(*self.args)
        made.__cause__ = self
        return made


class LinkRefusedError(LinkError):
    """The peer's host refused the connection at each of its addresses: nothing listens there."""


class LinkFullError(LinkError):
    """The link's queue of requests is full. The request was not sent."""


class LinkTimeoutError(LinkError):
    """No connection was made, or no response came, in time. Whether the peer is alive is unknown.

    The other requests on the connection, which this side closes then, fail with it, too.
    """


class LinkBrokenError(LinkError):
    """No connection could be made for another reason, or the peer ended it before the response came."""


class LinkProtocolError(LinkError):
    """The peer violated the protocol; probably it is not a broker."""


class LinkAuthenticationError(LinkError):
    """The peer refused the credentials, or could not prove who it is."""


class LinkClosedError(LinkError):
    """The link was closed on this side."""

"""The addresses of peers."""

from __future__ import annotations

_MAPPED = "::ffff:"


def peer_address(host: str) -> str:
    """Return a peer's address; `host` is what its socket tells.

    A socket for both IPv4 and IPv6 tells ::ffff:127.0.0.1 of an IPv4 peer. It becomes 127.0.0.1, as in Java.
    """
    return host.removeprefix(_MAPPED) if "." in host else host

"""A handshake of two contexts in memory."""

from __future__ import annotations

import ssl


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Let two contexts shake hands; return both ends."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(down, up, server_hostname="localhost"),
        server.wrap_bio(up, down, server_side=True),
    )
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides

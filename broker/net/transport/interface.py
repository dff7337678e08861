"""What a connection's reader and writer ask of the way to its peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.net.chunks import Bytes

MAX_GATHERED = 1024
"""Chunks that ``send_many`` is given at most: kernels refuse more at once (IOV_MAX)."""


class Transport(Protocol):
    """Bytes in, bytes and slices of files out. No method blocks, and all run on the event loop's thread.

    The methods that receive or send raise `BlockingIOError` when they can do nothing now. They raise another `OSError`
    when the connection is broken.

    A transport may encrypt. It then accepts plain bytes, and says by ``has_unsent`` that some of them have not reached
    the kernel in their other form. While that is so it accepts no more, so that a peer who does not read cannot fill
    memory. It performs its handshake when it is first watched, before it calls back.
    """

    @property
    def peer(self) -> str:
        """The address of the peer, without its port."""

    @property
    def has_unsent(self) -> bool:
        """Whether bytes that were accepted wait for the kernel to take them."""

    def watch_readable(self, callback: Callable[[], None], /) -> None:
        """Call back each time round the loop while ``recv_into`` has something to give, be it the end or an error.

        That includes bytes that have come out of the kernel already, and lie decrypted in the transport.
        """

    def unwatch_readable(self) -> None:
        """End ``watch_readable``."""

    def watch_writable(self, callback: Callable[[], None], /) -> None:
        """Call back while the transport accepts bytes and has sent all that it accepted before, or is broken."""

    def unwatch_writable(self) -> None:
        """End ``watch_writable``."""

    def recv_into(self, window: memoryview, /) -> int:
        """Receive bytes into ``window``, which is not empty; 0 is the end of what the peer sends."""

    def send(self, data: Bytes, /) -> int:
        """Accept bytes; return how many, at least one."""

    def send_many(self, chunks: Sequence[Bytes], more: bool, /) -> int:
        """Accept bytes of at most `MAX_GATHERED` chunks, in their order; return how many, at least one.

        Args:
            more: a slice of a file follows at once, so a packet need not end here.
        """

    def send_file(self, fd: int, position: int, count: int, /) -> int:
        """Accept bytes of a file, which are in memory; return how many, and 0 at the end of the file.

        The bytes are read before the method returns, so that the descriptor may be closed then.
        """

    def close(self) -> None:
        """Close the connection. Nothing calls back any more."""

"""The interface through which a connection's reader and writer exchange bytes with the peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.net.chunks import Bytes

MAX_GATHERED = 1024
"""The largest number of chunks in one call of `send_many`. Kernels refuse more (IOV_MAX)."""


class Transport(Protocol):
    """Receives bytes; sends bytes and slices of files. No method blocks, and all run on the event loop's thread.

    The methods that receive or send raise `BlockingIOError` when they can do nothing now. They raise another `OSError`
    when the connection is broken.

    A transport may encrypt. It then accepts plain bytes, and `has_unsent` is True until the kernel has taken all of
    them in encrypted form. Until then it accepts no more, so that a peer that does not read cannot fill memory. It
    performs its handshake when it is first watched, before it calls back.
    """

    @property
    def peer(self) -> str:
        """The address of the peer, without its port."""

    @property
    def has_unsent(self) -> bool:
        """Return whether bytes that were accepted wait for the kernel to take them."""

    def watch_readable(self, callback: Callable[[], None], /) -> None:
        """Call back in each round of the loop while `recv_into` would return or raise something, even the end.

        That includes bytes that the transport has already received from the kernel and decrypted.
        """

    def unwatch_readable(self) -> None:
        """End `watch_readable`."""

    def watch_writable(self, callback: Callable[[], None], /) -> None:
        """Call back while the transport accepts bytes and has sent all earlier ones, or is broken."""

    def unwatch_writable(self) -> None:
        """End `watch_writable`."""

    def recv_into(self, window: memoryview, /) -> int:
        """Receive bytes into `window`, which is not empty; return their number, 0 at the end of the stream."""

    def send(self, data: Bytes, /) -> int:
        """Accept bytes for sending; return how many, at least one."""

    def send_many(self, chunks: Sequence[Bytes], more: bool, /) -> int:
        """Accept bytes of at most `MAX_GATHERED` chunks, in their order; return how many, at least one.

        `more` says that a slice of a file follows at once, so that a packet need not end here.
        """

    def send_file(self, fd: int, position: int, count: int, /) -> int:
        """Accept bytes of a file that are in memory; return how many, 0 at the end of the file.

        The bytes are read before the method returns, so the descriptor may be closed afterwards.
        """

    def end_sending(self) -> None:
        """Tell the peer that nothing more comes. Bytes of the peer can still be received.

        Raises:
            OSError: the connection is broken.
        """

    def close(self) -> None:
        """Close the connection. There are no callbacks afterwards."""

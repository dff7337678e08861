"""A way for one thread to end another's wait on sockets."""

from __future__ import annotations

import socket


class Waker:
    """A pair of connected sockets: a thread waits on one end, and others write to the other end."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        """Give the file descriptor to wait on until it is readable."""
        return self._read.fileno()

    def wake(self) -> None:
        """End the wait that is under way, or else the next one; from any thread."""
        try:
            self._write.send(b"\0")
        except OSError:
            # The buffer is full of earlier bytes, which end the wait as well; or the waker is closed.
            return

    def clear(self) -> None:
        """Forget all calls of `wake` so far, so that the next wait is a wait."""
        try:
            while self._read.recv(4096):
                pass
        except OSError:
            return

    def close(self) -> None:
        """Close both sockets."""
        self._read.close()
        self._write.close()

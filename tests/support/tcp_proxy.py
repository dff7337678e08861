"""A TCP proxy between a client and a server, which breaks connections."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress


class Proxy:
    """A TCP proxy that breaks connections: sometimes before what was sent arrives, sometimes before the answer does."""

    def __init__(self, target: tuple[str, int], seed: int) -> None:
        self.target = target
        self.harm = 0.0
        """Chance of a break, for every piece of data in either direction."""
        self.broken = 0
        self.mute = False
        """True while answers are kept back."""
        self.shut = False
        """True while new connections are closed at once."""
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            with suppress(OSError):
                near, _ = self._listener.accept()
                if self.shut:
                    self.broken += 1
                    near.close()
                    continue
                far = socket.create_connection(self.target)
                self._open += [near, far]
                for one, other, answers in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._copy, args=(one, other, answers), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if self._random.random() < self.harm:
                    self.broken += 1
                    break
                if answers and self.mute:
                    continue
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Break all connections."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            each.close()

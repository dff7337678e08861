"""Reads of file slices that are about to be sent: checks that they are in memory, and reads in missing ones.

Sending a slice that is not in the page cache would make the event loop, and every client with it, wait for the disk. So
the writer asks first, and a worker reads in what is missing. While a part is being sent, a worker reads ahead for a
client that reads sequentially.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from broker.net.chunks import FileSlice
from broker.system import page_cache
from broker.system.workers import Workers

MAX_READING_AHEAD = 4
"""Workers of a broker that read ahead at a time. The others stay free for reads that a client waits for."""

RunOnWorker: TypeAlias = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]
"""Runs the first function on a worker, then calls the second on the loop with the first one's error or None."""


def on_workers(workers: Workers) -> RunOnWorker:
    """Return a `RunOnWorker` that uses the broker's workers."""

    def run(work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        workers.run(work).add_done_callback(lambda future: done(future.exception()))

    return run


class DiskReads:
    """Read file slices for all connections of a broker, and bound how many workers that occupies.

    Args:
        run: runs work on a worker.
        resident: whether bytes of a file are in memory.
        read_in: reads bytes of a file into memory.
    """

    __slots__ = ("_read_in", "_reading_ahead", "_resident", "_run")

    def __init__(
        self,
        run: RunOnWorker,
        resident: Callable[[int, int, int], bool] = page_cache.resident,
        read_in: Callable[[int, int, int], None] = page_cache.read_in,
    ) -> None:
        self._run = run
        self._resident = resident
        self._read_in = read_in
        self._reading_ahead = 0

    def is_in_memory(self, piece: FileSlice, position: int, length: int) -> bool:
        """Return whether bytes of a slice's file can be sent without waiting for the disk."""
        return self._resident(piece.fd, position, length)

    def read_in(
        self, piece: FileSlice, position: int, length: int, done: Callable[[BaseException | None], None]
    ) -> None:
        """Have a worker read bytes of a slice's file into memory; `done` is called later, with an error if any."""
        file = piece.file
        file.missed(position, length)
        # Keep the file, not its descriptor: the descriptor may be reused for another file once the slice is gone.
        self._run(lambda: self._read_in(file.fd, position, length), done)

    def read_ahead(self, piece: FileSlice, position: int, length: int) -> None:
        """Have a worker read what follows these bytes while they are sent, if the client reads sequentially."""
        if self._reading_ahead >= MAX_READING_AHEAD:
            return
        file = piece.file
        stretch = file.stretch_after(position, length)
        if stretch is None:
            return

        def done(_: BaseException | None) -> None:
            # The reader that needs these bytes will get the error again.
            self._reading_ahead -= 1
            stretch.done()

        self._run(lambda: self._read_in(file.fd, stretch.position, stretch.length), done)
        self._reading_ahead += 1

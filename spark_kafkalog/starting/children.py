"""The forked processes, as the fork server sees them."""

from __future__ import annotations

import os
import selectors
import signal
import socket
from contextlib import ExitStack, suppress

from spark_kafkalog.starting.handover import NUMBER


class Children:
    """The processes that run programs, each with the connection of its launcher.

    A launcher that is killed closes its connection. Its program then gets the signal to end, as if it had been killed.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._running: dict[int, tuple[int, socket.socket]] = {}
        """The descriptor of each child's process, and the connection, by process id."""

    def add(self, pid: int, connection: socket.socket) -> None:
        """Watch a child and its launcher, and tell the launcher who runs its program.

        Raises:
            OSError: The child cannot be watched, or the launcher is gone. The child is none of these then.
        """
        with ExitStack() as undo:
            descriptor = os.pidfd_open(pid)
            undo.callback(os.close, descriptor)
            self._selector.register(descriptor, selectors.EVENT_READ, lambda: self._ended(pid))
            undo.callback(self._selector.unregister, descriptor)
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._abandoned(pid))
            undo.callback(self._selector.unregister, connection)
            connection.sendall(NUMBER.pack(pid))
            undo.pop_all()
        self._running[pid] = descriptor, connection

    def __len__(self) -> int:
        return len(self._running)

    def close(self) -> None:
        """Close the descriptors of all children, in a forked process that is none of their parents."""
        for descriptor, connection in self._running.values():
            os.close(descriptor)
            connection.close()
        self._running.clear()

    def _ended(self, pid: int) -> None:
        descriptor, connection = self._running.pop(pid)
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        if connection.fileno() >= 0:
            self._selector.unregister(connection)
            # A launcher that is gone is noticed when its connection is read.
            with suppress(OSError):
                connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
            connection.close()

    def _abandoned(self, pid: int) -> None:
        """Pass the end of a launcher on to its program."""
        descriptor, connection = self._running[pid]
        self._selector.unregister(connection)
        connection.close()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)

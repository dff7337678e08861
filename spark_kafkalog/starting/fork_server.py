"""The process that the driver's Python processes are forked from.

    python -m spark_kafkalog.starting.fork_server JVM SOCKET

The first launcher of a JVM (process id JVM) starts it, and passes a listening socket (descriptor SOCKET) on. It imports
what those processes need, answers launchers, and ends with the JVM. It runs one thread, so that a fork copies it whole.

A launcher that cannot be served runs its program itself, so whatever fails here concerns one launcher. A forked child
waits until the server watches it and its launcher knows of it: before that, the program has not begun.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import sys
import time
from contextlib import suppress

from spark_kafkalog.compat.versions import is_tested
from spark_kafkalog.compat.workers.starting import DRIVER_IMPORTS
from spark_kafkalog.starting import ahead, becoming
from spark_kafkalog.starting.children import Children
from spark_kafkalog.starting.handover import HandoverError, Program, receive

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""The time that a launcher may take to send its message; it is sent at once."""
IDLE_S = 600.0
"""A server without children ends if no launcher has come for this long: its JVM may have ended before it looked."""
_PAUSE_S = 0.1
"""The pause after an error of a connection that cannot even be closed."""
_GO = b"!"
"""The byte that the server sends to a child once it watches it."""


class ForkServer:
    """Forks a child for each launcher, until the JVM ends.

    Args:
        jvm: Descriptor of the JVM's process.
        listening: The socket that launchers connect to.
        serves: Whether to serve launchers. Otherwise their connections are closed at once.
        idle_s: How long to wait for a launcher while there are no children.
    """

    def __init__(self, jvm: int, listening: socket.socket, *, serves: bool = True, idle_s: float = IDLE_S) -> None:
        self._jvm = jvm
        self._idle_s = idle_s
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)
        """A descriptor to close where no other is free, in order to accept a connection and to close it."""
        # A launcher may be gone before it is accepted.
        listening.setblocking(False)
        self._listening = listening
        self._serves = serves
        self._selector = selectors.DefaultSelector()
        self._children = Children(self._selector)
        self._jvm_lives = True
        self._program: Program | None = None

    def serve(self) -> Program | None:
        """Answer launchers.

        Returns:
            None when the JVM has ended, or nothing was to do for `idle_s`. In a forked child, the program to run.
        """
        self._selector.register(self._jvm, selectors.EVENT_READ, self._end)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        while self._jvm_lives:
            ready = self._selector.select(None if self._children else self._idle_s)
            if not ready:
                break
            for key, _ in ready:
                # An event of this round may have closed another one's descriptor, and its number may be in use again.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
                if self._program is not None:
                    return self._program
        self._close()
        return None

    def _close(self) -> None:
        self._selector.close()
        if self._spare is not None:
            os.close(self._spare)

    def _end(self) -> None:
        self._jvm_lives = False

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            logger.debug("a launcher is not served: %s", error)
            self._turn_away()
            return
        if not self._serves:
            connection.close()
            return
        connection.settimeout(_PATIENCE_S)
        try:
            program, streams = receive(connection)
        except (HandoverError, OSError) as error:
            # The launcher runs the program itself.
            logger.debug("a launcher is not served: %s", error)
            connection.close()
            return
        is_child = False
        try:
            is_child = self._fork(connection)
        except OSError as error:
            logger.debug("a launcher is not served: %s", error)
            connection.close()
        if is_child:
            self._become(program, streams, connection)
            return
        for stream in streams:
            os.close(stream)

    def _turn_away(self) -> None:
        """Close the next connection, where there is no descriptor for it."""
        if self._spare is None:
            time.sleep(_PAUSE_S)
        else:
            os.close(self._spare)
            self._spare = None
            with suppress(OSError):
                self._listening.accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def _fork(self, connection: socket.socket) -> bool:
        """Fork a child, and watch it; return whether this process is the child.

        Raises:
            OSError: There is no child, or it could not be watched. Then it has ended, and its program has not begun.
        """
        waits, tells = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(waits)
            os.close(tells)
            raise
        if not pid:
            os.close(tells)
            if os.read(waits, 1) != _GO:
                os._exit(1)
            os.close(waits)
            return True
        # This frees the descriptor that the child is watched by.
        os.close(waits)
        try:
            self._children.add(pid, connection)
            with suppress(BrokenPipeError):
                # Otherwise the child was killed.
                os.write(tells, _GO)
            os.close(tells)
        except OSError:
            os.close(tells)
            os.waitpid(pid, 0)
            raise
        return False

    def _become(self, program: Program, streams: list[int], connection: socket.socket) -> None:
        """Leave everything of the server behind, in the child."""
        self._close()
        self._children.close()
        self._listening.close()
        connection.close()
        os.close(self._jvm)
        becoming.prepare(program, streams)
        self._program = program


def main() -> None:
    """Serve one JVM, with a tested PySpark. With another one, refuse: launchers run Python themselves then."""
    jvm, listening = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    try:
        descriptor = os.pidfd_open(jvm)
    except OSError:
        # The JVM has ended, or the kernel is too old.
        return
    serves = is_tested()
    if serves:
        ahead.reseed_children()
        ahead.import_all((*DRIVER_IMPORTS, *ahead.DRIVER))
        ahead.settle()
    program = ForkServer(descriptor, listening, serves=serves).serve()
    if program is not None:
        becoming.run(program)


if __name__ == "__main__":
    main()

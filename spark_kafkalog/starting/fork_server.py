"""The process that the driver's Python processes are forked from.

    python -m spark_kafkalog.starting.fork_server JVM SOCKET

The first launcher of a JVM (process id JVM) starts it, and passes a listening socket (descriptor SOCKET) on. It imports
what those processes need, answers launchers, and ends with the JVM. It runs one thread, so that a fork copies it whole.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import sys

from spark_kafkalog.compat.starting import DRIVER_IMPORTS
from spark_kafkalog.compat.versions import is_tested
from spark_kafkalog.starting import ahead, becoming
from spark_kafkalog.starting.children import Children
from spark_kafkalog.starting.handover import HandoverError, Program, receive

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""How long a launcher may take to send its message; it is sent at once."""


class ForkServer:
    """Forks a child for each launcher, until the JVM ends.

    Args:
        jvm: Descriptor of the JVM's process.
        listening: The socket that launchers connect to.
        serves: Whether to serve launchers. Otherwise their connections are closed at once.
    """

    def __init__(self, jvm: int, listening: socket.socket, *, serves: bool = True) -> None:
        self._jvm = jvm
        self._listening = listening
        self._serves = serves
        self._selector = selectors.DefaultSelector()
        self._children = Children(self._selector)
        self._jvm_lives = True
        self._program: Program | None = None

    def serve(self) -> Program | None:
        """Answer launchers.

        Returns:
            None when the JVM has ended. In a forked child, the program to run.
        """
        self._selector.register(self._jvm, selectors.EVENT_READ, self._end)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        while self._jvm_lives:
            for key, _ in self._selector.select():
                # An event of this round may have closed another one's descriptor, and its number may be in use again.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
                if self._program is not None:
                    return self._program
        return None

    def _end(self) -> None:
        self._jvm_lives = False

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
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
        pid = os.fork()
        if not pid:
            self._become(program, streams, connection)
            return
        for stream in streams:
            os.close(stream)
        self._children.add(pid, connection)

    def _become(self, program: Program, streams: list[int], connection: socket.socket) -> None:
        """Leave everything of the server behind, in the child."""
        self._selector.close()
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

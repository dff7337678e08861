"""The connection to the JVM, over which a Python process gets its orders and hands over its rows.

Spark leaves it as TCP connections are by default. The JVM writes a task's function and then its partition, both small.
Its system holds the second piece back until the first is acknowledged (Nagle's algorithm), and this side's system
delays the acknowledgement by 40 ms, because it hopes to send it along with an answer. The same happens to the end of
the rows on their way back. So each task waits for up to 80 ms in which nobody does anything. The planner of a stream
waits only where it sends rows with its plan, in several pieces.

Spark could set TCP_NODELAY. Here the acknowledgement is sent as soon as the function has been read, which is when the
data source in it is unpickled. No part of PySpark is needed for that: it is one of the process's sockets.
"""

from __future__ import annotations

import ctypes
import functools
import os
import socket
import sys

from spark_kafkalog.compat.workers.processes import serves_jvm

_DESCRIPTORS = "/proc/self/fd"
"""Linux lists the open files of a process here. Only Linux has TCP_QUICKACK, too."""
_ADDRESS_BYTES = 128
"""The size of C's `sockaddr_storage`."""
_V4, _V6 = slice(4, 8), slice(8, 24)
"""The place of the address in C's `sockaddr_in` and `sockaddr_in6`."""


def hurry() -> None:
    """Acknowledge what the JVM has sent, and send what this process writes from now on without delay.

    The first holds only for what has come so far, so call this in each task. It changes all TCP connections of the
    process to the same host. In processes that the JVM has not started, nothing happens.
    """
    if sys.platform != "linux" or not serves_jvm():
        return
    for descriptor in descriptors():
        if is_local(descriptor):
            _switch_on(descriptor, socket.TCP_QUICKACK)
            _switch_on(descriptor, socket.TCP_NODELAY)


def descriptors() -> list[int]:
    """Return the open files of this process."""
    try:
        return [int(name) for name in os.listdir(_DESCRIPTORS)]
    except OSError:
        return []


def is_local(descriptor: int) -> bool:
    """Return whether a file is a socket whose other end is on this host, by an address of IP."""
    address = ctypes.create_string_buffer(_ADDRESS_BYTES)
    size = ctypes.c_uint32(_ADDRESS_BYTES)
    if _library().getpeername(descriptor, address, ctypes.byref(size)):
        return False
    family = int.from_bytes(address.raw[:2], sys.byteorder)
    if family == socket.AF_INET:
        return address.raw[_V4].startswith(b"\x7f")
    return family == socket.AF_INET6 and address.raw[_V6] == socket.inet_pton(socket.AF_INET6, "::1")


def _switch_on(descriptor: int, option: int) -> None:
    """Set an option of a TCP connection; other sockets refuse it."""
    on = ctypes.c_int(1)
    _library().setsockopt(descriptor, socket.IPPROTO_TCP, option, ctypes.byref(on), ctypes.sizeof(on))


@functools.cache
def _library() -> ctypes.CDLL:
    """Return the C library.

    A socket object of Python's would make the connection non-blocking where there is a default timeout, and so would
    the objects that some libraries put in its place.
    """
    return ctypes.CDLL(None)

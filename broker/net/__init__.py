"""Sockets and bytes: listeners, connections, request framing, and the memory requests may take.

- ``framing``     bytes in, frames out; no sockets
- ``memory``      the bound on memory for requests over all connections
- ``connection``  one non-blocking socket on the event loop: in-order requests, zero-copy responses
- ``acceptor``    one listening socket: limits, accepted connections, idle ones closed
- ``link``        requests to another broker: connects, again after failures; ``link_channel`` one of its connections,
                  ``link_errors`` how it can fail
- ``network``     how outgoing connections are opened
"""

"""Sockets and bytes: listeners, connections, request framing, and the memory requests may take.

Connections of clients:

- ``acceptor``     accepts connections within limits and closes idle ones
- ``connection``   one client's connection: serves requests one at a time, answers in order
- ``session``      the connection's listener, peer, principal and client software
- ``transport/``   how a connection's bytes are received and sent
- ``reader``       receives bytes and splits them into frames, within the memory for requests
- ``framing``      finds frames in a receive buffer; no sockets
- ``memory``       bounds the memory for requests over all connections
- ``writer``       sends responses in order
- ``chunks``       the types that a response consists of
- ``disk_reads``   checks whether slices of files are in memory, and reads missing ones in
- ``throttle``     stops serving a client that is above a quota for a time

Connections to other brokers:

- ``link``          sends requests to one broker, and reconnects after failures
- ``link_channel``  one connection of a link
- ``link_errors``   the ways a request over a link can fail

Under both:

- ``network``      opens connections and binds listeners
- ``listener``     a listening socket and the connections it accepts
- ``host_lookup``  finds the addresses of hosts
- ``event_loop``   what connections need of an event loop
"""

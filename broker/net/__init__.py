"""Sockets and bytes: listeners, connections, request framing, and the memory requests may take.

- ``acceptor``     listening sockets: limits, accepted connections, idle ones closed
- ``connection``   one client: requests served one at a time and answered in their order
- ``session``      who the client is: listener, peer, principal, software
- ``transport/``   how a connection's bytes travel
- ``reader``       bytes in, frames out, within the memory for requests
- ``framing``      where frames begin and end; no sockets
- ``memory``       the bound on memory for requests over all connections
- ``writer``       responses out, in order
- ``chunks``       the types of what a response is made of
- ``disk_reads``   slices of files: whether they are in memory, and reading them in
- ``throttle``     the time for which a client above a quota is served nothing
- ``event_loop``   the types of what connections need of a loop
- ``link``         requests to another broker: connects, again after failures; ``link_channel`` one of its connections,
                   ``link_errors`` how it can fail
- ``network``      how connections are opened and listeners bound; ``listening`` a listener's socket
- ``host_lookup``  addresses of hosts
"""

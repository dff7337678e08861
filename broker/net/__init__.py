"""Sockets and bytes: listeners, connections, request framing, and the memory requests may take.

Connections of clients:

- `acceptor`     accepts connections within limits and closes idle ones
- `address_limits` limits the connections of one address
- `wrong_protocol` recognises peers that speak TLS or HTTP
- `connection`   one client's connection: serves requests one after another, answers in order
- `authentication/`  what stands in front of the dispatcher until a client is authenticated
- `session`      the connection's listener, peer, principal and client software
- `transport/`   how a connection's bytes are received and sent
- `tls/`         the same over TLS
- `reader`       receives bytes and splits them into frames, within the memory for requests
- `framing`      finds frames in a receive buffer; no sockets
- `memory`       bounds the memory for requests over all connections
- `writer`       sends responses in order
- `postponed`    responses to requests that wait, while the connection serves further ones
- `chunks`       the types that a response consists of
- `disk_reads`   checks whether slices of files are in memory, and reads missing ones in
- `throttle`     stops serving a client that is above a quota for a time

Beside them:

- `links/`       connections to other brokers
- `told`         log lines about peers, of which each address causes only a few
- `sockets/`     what both take from the system: network, listeners, host look-ups, event loop
"""

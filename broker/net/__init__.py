"""Sockets and bytes: listeners, connections, request framing, and the memory requests may take.

Connections of clients:

- `acceptor`     accepts connections within limits and closes idle ones
- `wrong_protocol` recognises peers that speak TLS or HTTP
- `connection`   one client's connection: serves requests one after another, answers in order
- `authentication/`  what stands in front of the dispatcher until a client is authenticated
- `session`      the connection's listener, peer, principal and client software
- `transport/`   how a connection's bytes are received and sent
- `tls/`         the same over TLS
- `reader`       receives bytes and splits them into frames, within the memory for requests
- `framing`      finds frames in a receive buffer; no sockets
- `writer`       sends responses in order
- `postponed`    responses to requests that wait, while the connection serves further ones
- `chunks`       the types that a response consists of
- `disk_reads`   checks whether slices of files are in memory, and reads missing ones in

Beside them:

- `links/`       connections to other brokers
- `limits/`      what peers may take: connections, memory, time, lines of the log
- `sockets/`     what both take from the system: network, listeners, host look-ups, event loop
"""

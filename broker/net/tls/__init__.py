"""TLS on connections: listeners that encrypt, and links to other brokers over them.

- `listeners`  all listeners with TLS: certificates that are read again, users, counts
- `transport`  a connection's bytes, encrypted
- `turns`      turns of handshakes, so that many do not hold up others
- `dialer`     connections to other brokers
"""

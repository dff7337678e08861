"""Limits of what peers may take.

- `address_limits`  limits the connections of one address
- `memory`          bounds the memory for requests over all connections
- `throttle`        stops serving a client that is above a quota for a time
- `told`            log lines about peers, of which each address causes only a few
"""

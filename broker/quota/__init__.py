"""Client quotas (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599, KIP-612): what a client may use, and what happens above it.

- `entities`     quota entities and keys, and filters over entities
- `limits`       which of several quotas applies to a client, and which clients share it
- `measures`     recent usage: a rate over sampled windows, or a token bucket
- `client`       the quotas of users and client ids: computes throttle times from usage
- `connections`  the quotas of IP addresses: connections accepted per second

A client above its quota gets its response at once with the time to wait (`throttle_time_ms`), and the broker serves
nothing more that it sends during that time (KIP-219). All functions take the time as an argument; nothing here reads a
clock or does I/O.
"""

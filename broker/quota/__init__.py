"""Client quotas (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599, KIP-612): what a client may use, and what happens above it.

- ``entities``     whom a quota is for, which keys it has, and which entities a filter names
- ``limits``       which of several quotas holds for a client, and with whom it shares it
- ``measures``     what was used lately: a rate over sampled windows, or a bucket of tokens
- ``client``       the quotas of users and client ids: what was used becomes a time to wait
- ``connections``  the quotas of addresses: how many connections a second are accepted

A client above its quota is answered at once and told to wait (``throttle_time_ms``), and meanwhile nothing more that it
sends is served (KIP-219). All of it takes the time as a value; nothing here reads a clock or does I/O.
"""

"""ZooKeeper, as far as brokers and clients use it alike. Each of them has a session of its own, and errors of its own.

- `values`      nodes, operations on them, and states of a session. Pure.
- `over_kazoo`  the same values for the library kazoo, which brokers and clients use
"""

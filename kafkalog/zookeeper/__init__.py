"""ZooKeeper, as far as brokers and clients use it alike. Each of them has a session of its own, and errors of its own.

- `values`       nodes, operations on them, and states of a session. Pure.
- `security`     what secures a session: TLS, a login, access lists. Pure.
- `properties`   the properties that secure a session: names, defaults, what values may be. Pure.
- `over_kazoo`   the same values for the library kazoo, which brokers and clients use
- `buffering`    lets kazoo exchange many requests and answers with few calls of the system
- `connections`  connections for kazoo, plain or with TLS
- `withdrawing`  withdraws requests that wait for a connection
- `opening`      opens a session, or tells why there is none
"""

"""Access control lists (ACLs, KIP-11, prefixes: KIP-290): who may do what, and the decisions that follow.

- `model`        resources, operations and entries, as values
- `filters`      what requests of administrators select
- `rules`        the entries of a cluster, and how they decide; pure
- `authorizer`   decides for requests: remembers decisions, and tells the log of them

Everything here runs on the event loop and does no I/O. The entries are kept by the metadata store.
"""

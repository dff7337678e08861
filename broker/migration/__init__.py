"""Moves the metadata of a stopped broker between its own registry and ZooKeeper: `kafkalog server join` and `leave`.

A lone broker has its registry in its log directories. When it joins, the registry becomes the nodes of a cluster of
which it is the only member. When it leaves, the nodes become its registry. The logs stay as they are.

What decides is the registry: a broker whose directories have it is alone, one without it is a member. It is written, or
put aside, at the moment in which the other side is complete. A command that is killed before or after that is run
again; `znodes/move` tells that there was one.

- `tree`         the nodes of a registry, and the registry of a cluster's nodes; pure
- `nodes`        reads, writes and removes many nodes
- `stopped`      the log directories of a broker that does not run
- `join`         from the registry into ZooKeeper
- `leave`        from ZooKeeper into the registry

One module changes either of them while no broker runs:

- `first_users`  adds users, such as the first one of all
"""

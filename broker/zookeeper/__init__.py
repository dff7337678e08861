"""A session with ZooKeeper, as the parts of a broker in a cluster use it: all on the event loop.

- `interface`     the interface, its values and its errors
- `kazoo_client`  the implementation, over kazoo's threads
"""

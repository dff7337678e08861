"""The two ways in which a broker is run: `Server` calls a mode at each step that differs between them.

- `mode`       the interface of a mode
- `lone`       a broker that is a cluster of its own, with its registry in a file
- `cluster`    a broker that is a member of a cluster over ZooKeeper
- `broker_id`  which id a broker has
- `zookeeper_session`  opens a session with ZooKeeper, by the configuration
- `zookeeper_security`  how that session is secured, by the configuration
"""

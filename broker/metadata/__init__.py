"""The cluster's metadata ("the registry"): one model, one interface, and a store for each way of keeping it.

- `model`       brokers, controller, topics, partitions, configurations, quotas, producer ids: immutable values
- `operations`  typed changes that turn one state into the next; pure
- `json_form`   the JSON in which a state is stored
- `store`       the interface of a store: commits and listeners
- `local`       the store of a lone broker: an atomically replaced file in each of its log directories
- `tree`        the store of a cluster over ZooKeeper
- `znodes`      the nodes of a cluster's tree in ZooKeeper, as values and bytes; pure
- `cache`       the read side, from which requests about the cluster are answered
"""

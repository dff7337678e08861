"""Decisions about the cluster, and the services that commit them to the metadata store.

- `decisions`      pure functions, which turn states and events into operations and requests
- `cluster`        the controller of a cluster over ZooKeeper

Services that commit decisions and carry them out:

- `topics`         creates and deletes topics, and adds partitions
- `auto_creation`  creates topics that clients ask about
- `topic_execution`  what is done once a topic is created or deleted: on a lone broker, and the interface for a cluster
- `cluster_topics`  the same in a cluster
- `alterations`    the changes of IncrementalAlterConfigs to one resource
- `configs`        alters and describes configurations
- `quotas`         alters and describes client quotas
- `security`       users, tokens, access control entries, and the stores of listeners
- `channel`        sends brokers the requests that follow from a decision
- `publisher`      puts committed configurations and quotas in force, whichever broker committed them
- `producer_ids`   allocates producer ids
- `controller_ids`  blocks of producer ids from the controller of a cluster
- `broker_links`   links to the other brokers of a cluster, for one purpose
- `loggers`        alters and describes the levels of the broker's loggers
"""

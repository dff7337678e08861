"""The metadata store of a cluster: a tree of nodes in ZooKeeper, which Apache Kafka's brokers may share.

The state has two sources. The controller's UpdateMetadata requests bring brokers, topics and partitions. Configurations
and quotas are read from the nodes below `/config`, access control entries from those below `/kafka-acl`.

- `store`      the store: commits, and calls of its listeners
- `entities`   which node below `/config` belongs to which resource, and its content as operations; pure
- `reading`    reads the configurations, all of them or some
- `notices`    follows `/config/changes` and nodes like it, and removes old notices
- `acls`       reads, writes and follows access control entries
- `topics`     creates and deletes topics and adds partitions
- `tokens`     delegation tokens: reads, writes and follows them
- `writing`    writes configurations, quotas and blocks of producer ids
- `session`    requests that are made again after a lost connection; the size that a node may have
"""

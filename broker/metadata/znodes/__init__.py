"""Nodes of a cluster's tree in ZooKeeper: their paths, and their bytes as values and back. Pure.

The nodes are those of Apache Kafka 3.9 (`kafka.zk.ZkData`). Older forms are read, and written where the version of the
protocol between brokers asks for them. Unknown keys are ignored, as Kafka does. A node that cannot be read raises
`ZnodeError`, which names it.

- `paths`         where they are
- `json_node`     what all nodes in JSON share
- `brokers`       `/brokers/ids/<id>`: a registered broker
- `topics`        `/brokers/topics/<topic>` and the state of a partition below it
- `controller`    `/controller` and `/controller_epoch`
- `configs`       `/config/<type>/<name>`
- `acls`          `/kafka-acl` and `/kafka-acl-extended`: access control entries, and notices of their changes
- `notices`       nodes with which brokers and tools tell of a change or ask for something
- `cluster`       `/cluster/id`, `/feature` and `/latest_producer_id_block`
- `migration`     `/migration`: a KRaft controller takes the cluster over
- `move`          `/kafkalog/move`: a broker's metadata is being moved into the tree, or out of it
"""

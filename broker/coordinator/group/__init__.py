"""The group coordinator.

``records`` has the formats of ``__consumer_offsets``, ``classic`` and ``modern`` the groups of the two protocols, and
``offsets`` what a group has committed: these are pure. ``replay`` makes groups of records, `shard` holds those of one
partition, stores what they want stored and wakes them when their time has come, and `service` answers for all of them.

- ``classic``              groups of the classic protocol
- ``cluster_topics``       the cluster's topics, as groups of the consumer protocol see them
- ``consumer_membership``  a group of the consumer protocol in a shard
- ``consumer_service``     requests to groups of the consumer protocol
- ``conversion``           groups that change their protocol
- ``membership``           what the coordinator asks of a group of either protocol
- ``modern``               groups of the consumer protocol (KIP-848)
- ``shard_parts``          what all shards share
- ``turns``                work that is done one piece at a time
"""

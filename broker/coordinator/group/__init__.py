"""The group coordinator.

``records`` has the formats of ``__consumer_offsets``; ``classic`` and ``member`` the machine of a classic group, and
``offsets`` what a group has committed: these are pure. ``replay`` makes groups of records, `shard` holds those of one
partition, stores what they want stored and wakes them when their time has come, and `service` answers for all of them.
"""

"""Partitions as replicas: leadership, in-sync replicas, high watermark, and operations that wait on them.

- ``purgatory``        operations that wait for a condition on partitions, or a deadline
- ``partition``        one partition as this broker holds it
- ``roles``            leader and follower: what they know, and what they decide by it
- ``isr``              when followers are in sync, and how far the high watermark may go
- ``hosting_retries``  partitions whose log could not be used are tried again
- ``manager``          all of them; produce and fetch over many partitions at once
- ``applier``          a controller's decisions, carried out on this broker's partitions and logs
- ``acknowledgement``  waiting until an append is acknowledged
"""

"""Offsets of a consumer: the first positions in its partitions, and queries.

- `offset_queries`   questions about topics and offsets, whatever is assigned
- `position_reset`   where reading begins in a new partition
"""

"""Where a consumer is, and where it could be.

- `offset_queries`   questions about topics and offsets, whatever is assigned
- `position_reset`   where reading begins in a new partition
"""

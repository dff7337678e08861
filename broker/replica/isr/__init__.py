"""In-sync replicas of the partitions that this broker leads.

- `rules`   which followers are in sync, and how far the high watermark may advance; pure
- `keeper`  proposes changes of the ISR, and takes over what was decided
"""

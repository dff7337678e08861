"""Consumer groups seen from outside.

- `group_admin`   `GroupAdmin`: list, describe and delete groups, remove members, read and move committed offsets
- `descriptions`  groups and their members as values
- `offsets`       what a group has committed
- `lag`           how far a group is behind; `offset_reset` where its offsets are moved to; both are pure
"""

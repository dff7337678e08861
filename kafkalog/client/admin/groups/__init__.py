"""Consumer groups seen from outside.

- `group_admin`   `GroupAdmin`: list, describe and delete groups, remove members, read and move committed offsets
- `descriptions`  groups and their members as values
- `offsets`       what a group has committed
"""

"""Positions in the source, and the offsets of the target that belong to them.

- `known`         has the stored positions, as far as they count for the present topics
- `beginnings`    finds where partitions begin of which nothing was mirrored
- `leaderless`    leaves out partitions whose leaders do not answer
- `created_again` tells topics from deleted ones of the same names
- `lost_records`  finds partitions that lack records before the position in them

Pure:

- `recalled`      makes the map of offsets that earlier processes have stored
- `translation`   maps offsets of the source to offsets of the target
"""

"""The topics of a mirror.

- `follower`   creates and alters the target's topics, so that they follow those of the source
- `refused`    leaves out what the target refuses to make, until it makes it
- `acls`       copies their access control lists

Pure:

- `naming`     the names of topics on both sides; it tells cycles
- `selection`  selects the topics, groups and configurations that are mirrored
"""

"""Looks whether this broker has the roles that ZooKeeper says it has, and mends what differs.

- `reconciliation`  decides when to look for differences, and which of them are mended
- `role_check`      what differs between the role of a replica and ZooKeeper; pure
- `role_survey`     reads what differs for all replicas
- `role_mending`    mends what differs; sets strays aside
- `gone_topics`     forgets topics that the cluster does not have any more
"""

"""Removing records from the beginning and the middle of a log.

- `retention_policy`  which segments may be deleted: by time, by size, or by a policy of the user's
- `log_remover`       deletes them, deletes records before an offset, and replaces compacted segments
- `retention_turns`   goes through the logs of a broker and lets others have their turns in between
"""

"""Log directories (``log.dirs``) and the directories of partitions in them.

- ``log_dir``              one log directory: its lock, its identity, its checkpoints, its clean-shutdown marker
- ``log_dirs``             all log directories of a broker: locked together
- ``checkpoints``          reading and writing the small files of a log directory
- ``checkpoint_writer``    writes the offset checkpoints of all log directories
- ``partition_directory``  the directory of one partition: its name, and the topic id in it
- ``directory_move``       renames a log's directory, or switches the log to another one
- ``deletions``            removes the directories of deleted partitions
"""

"""Log directories (`log.dirs`) and the directories of partitions in them.

- `log_dir`              one log directory: its lock, its identity, its checkpoints, its clean-shutdown marker
- `log_dirs`             all log directories of a broker: locked together
- `checkpoints`          reading and writing the small files of a log directory
- `log_checkpoints`      each kind of offset checkpoint, and the value that it stores of a log
- `checkpoint_writer`    writes one kind of checkpoint into all log directories
- `partition_directory`  the directory of one partition: its name, and the topic id in it
- `directory_move`       renames a log's directory, or switches the log to another one
- `deletions`            removes the directories of deleted partitions
- `strays`               keeps the directories of replicas that are not in use, and removes them later
"""

"""`kafkalog log`: dump, verify, repair and count the log files of a stopped broker.

- `targets`      what a path means: a file, a partition's directory, a log directory, or a tree of these
- `dump`         a log's files as text, as `kafka-dump-log` prints them
- `dump_json`    the same as values for JSON
- `checks/`      what can be wrong with a file, a partition, a log directory
- `verify`       runs the checks over many threads
- `repair_plan`  decides what a repair will do
- `repair`       carries that out
- `stats`        counts what is in a partition
- `tail`         the last records, and those that are appended from then on
"""

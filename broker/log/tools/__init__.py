"""What ``kafkalog log`` does to log files of a stopped broker, apart from printing: find, check, repair, count, follow.

- `targets`          what a path means: a file, a partition's directory, a log directory, a tree of these
- `findings`         what is wrong: file, position, offset, remedy
- `segment_check`    one ``.log`` file, every batch, and its indexes against it
- `partition_check`  the segments of a partition against each other, and the files beside them
- `directory_check`  the files of a log directory
- `verify`           all of it, over many threads
- `repair`           puts right what the checks found
- `stats`            what is in a partition, in numbers
- `tail`             the last records, and those that come
- ``index_check``    a segment's indexes against its batches
- ``repair_plan``    what a repair will do
"""

"""The checks of `kafkalog log verify`.

- `findings`         one problem: file, position, offset, remedy
- `segment_check`    one `.log` file, every batch, and its indexes against it
- `index_check`      a segment's indexes against its batches
- `partition_check`  the segments of a partition against each other, and the files beside them
- `directory_check`  the files of a log directory
"""

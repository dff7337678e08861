"""The segments of a log: `.log` files of record batches, each with its indexes.

- `segment`          one segment: append, find, read, truncate, flush
- `index_scan`       collects the entries of both indexes from the log, to build them anew
- `segment_cut`      where a truncation cuts a segment
- `splitting`        splits a segment whose offsets span more than its indexes can hold
- `segment_list`     the segments of one log, and which of them holds an offset
- `segment_files`    the names of a segment's files, and its open `.log` file
- `file_slices`      open `.log` files, and the slices of them that readers hold
- `batch_positions`  positions of recent batches, which need no index
- `batch_scan`       walks over the batches of an open `.log` file
"""

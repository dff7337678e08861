"""Reading a log.

- `log_reader`   slices by offset; offsets by timestamp and by leader epoch; aborted transactions
- `time_search`  from a timestamp to the first record that is not older
- `cold_reads`   what a worker has to read from the disk before the event loop can look something up
- `segment_times`  times of segments that are not known after a start, read by workers
- `read_ahead`   what to read into the page cache ahead of a sequential reader
"""

"""The log's use of the file system.

- `file_ops`            the calls that can lose data, behind one object that tests can replace
- `out_of_descriptors`  file operations that close idle files and try again when descriptors run out
- `open_files`          the budget of open files and maps
- `flush_stats`         how often segments were forced to the device, and how long that took
"""

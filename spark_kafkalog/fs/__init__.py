"""File systems: what loads write to and log directories are read from.

- `interface`  what is needed of a file system, to read (`FileSystem`) and to write (`Files`)
- `opening`    the file system of a path or URL
- `local`      this machine's files; `renaming` a rename that does not replace
- `hdfs`       HDFS through hdfs-native
- `arrow`      object stores and what else ``pyarrow.fs`` knows, to read only
- `paths`      paths with and without a scheme
- `globs`      patterns in paths
"""

"""File systems that loads write to and that log directories are read from.

- `interface`  the operations of a file system, to read (`FileSystem`) and to write (`Files`)
- `opening`    the file system of a path or URL
- `local`      this machine's files; `renaming` a rename that never replaces its target
- `hdfs`       HDFS through hdfs-native; `hadoop_umask` the permissions that it gives
- `arrow`      object stores and other file systems of `pyarrow.fs`, to read only
- `paths`      paths with and without a scheme
- `globs`      patterns in paths
"""

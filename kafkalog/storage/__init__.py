"""The layout of a Kafka log directory: converts bytes and names to values, and back.

The broker, its tools and Spark's offline reader share this package, so that each format is implemented once. Nothing
here opens a file. Each module describes its format in its docstring: fields, units, ranges, who writes it, and what a
crash leaves behind.

- `topics`               names of topics, and Kafka's own topics
- `java_hash`            the hash by which keys belong to partitions of Kafka's own topics
- `names`                names of files and directories
- `listing`              finds the segments in a partition's directory
- `checkpoints`          checkpoint files of offsets and of leader epochs
- `properties`           `partition.metadata`, `meta.properties`, the clean-shutdown marker
- `index_entries`        entries of the offset index and the time index
- `index_arrays`         whole indexes as numpy arrays
- `transaction_entries`  entries of the index of aborted transactions
- `snapshots`            producer snapshots
- `batch_walk`           walks over the record batches of a segment
"""

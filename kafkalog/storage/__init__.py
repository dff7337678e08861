"""The layout of a Kafka log directory: from bytes and names to values, and back.

The broker, its tools and Spark's offline reader use it, so that each format is written down once. Nothing here opens a
file: bytes come in, values go out. Each module that has a format describes it in its docstring: fields, units, ranges,
who writes it, and what a crash leaves behind.

- `topics`               names of topics, and Kafka's own topics
- `names`                names of files and directories
- `listing`              which segments the files of a partition's directory make up
- `checkpoints`          tables of offsets and of leader epochs
- `properties`           topic id, identity, the marker of a clean stop
- `index_entries`        offset and time index; `index_arrays` whole ones as numpy arrays
- `transaction_entries`  the index of aborted transactions
- `snapshots`            producer state as of an offset
- `batch_walk`           the record batches of a segment
"""

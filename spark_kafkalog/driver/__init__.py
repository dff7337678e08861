"""What runs on the driver: the readers that Spark plans a query with.

- `batch_reader`   batch queries
- `stream_reader`  streaming queries
- `discovery`      partitions and offsets, requested from brokers
- `small_batches`  small micro-batches, read while they are planned
- `group_commits`  offsets committed to a consumer group, for lag tools
"""

"""Code that runs on the driver: the readers with which Spark plans a query.

- `batch_reader`   batch queries
- `stream_reader`  streaming queries
- `discovery`      partitions and offsets, requested from brokers
- `batch_density`  bytes per offset, from the first bytes of batches
- `small_batches`  small micro-batches, read while they are planned
- `pace`           the time of micro-batches, which tells whether the planner reads small ones or tasks do
- `group_commits`  offsets committed to a consumer group, for lag tools
"""

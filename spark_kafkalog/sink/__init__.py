"""Spark writes to topics: `df.write.format("kafkalog")` and `df.writeStream.format("kafkalog")`, without a jar.

- `sink_options`   the options, under the names of Spark's Kafka sink
- `sink_columns`   the columns that rows may have
- `batch_writer`   the writer of a batch query; `stream_writer` that of one micro-batch of a streaming query
- `query_writer`   what both writers share: the claim before the tasks, commit or abort after them
- `task_writer`    one task: encodes its rows into record batches (with the producer's arrow room) and sends them
- `message`        what each task reports to the driver
- `transactional`  exactly-once writing

Delivery is at least once by default. Each task attempt has an idempotent producer of its own, so repeated requests
append nothing twice, but an attempt that Spark repeats writes its rows again. With `kafka.transactional.id` delivery
is exactly once: each attempt leaves a transaction open, and the driver ends it (`transactional`).
"""

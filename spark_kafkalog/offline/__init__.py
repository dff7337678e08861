"""Kafka log directories read without a broker: ``spark.read.format("kafkalog").load("/var/lib/kafka/data")``.

- `options`       which directories, and the source's options that apply
- `segment`       the batches of a segment file, whole or damaged
- `transactions`  what read_committed leaves out
- `partition`     one replica's directory, looked at by the driver
- `plan`          from segments to tasks: pure functions
- `read`          pieces of segments as record batches, on executors
- `source`        the batch reader
"""

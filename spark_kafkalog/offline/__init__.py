"""Kafka log directories read without a broker: `spark.read.format("kafkalog").load("/var/lib/kafka/data")`.

- `offline_options`       which directories, and those of the source's options that apply
- `offline_reader`        the batch reader: finds partitions and plans tasks
- `replica_directory`     the driver's view of one replica's directory
- `segment_pieces`        from segments to tasks: pure functions
- `piece_reader`          on executors: pieces of segments as record batches
- `segment`               the batches of one segment file, whole or damaged
- `aborted_transactions`  which records read_committed leaves out
- `corrupt_log`           the error of a damaged segment
"""

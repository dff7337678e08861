"""Spark reads the log: ``spark.read.format("kafkalog")`` and ``spark.readStream.format("kafkalog")``, without a jar.

- `options`     what a user may set, under the names of Spark's Kafka source
- `schema`      the columns, and which of them a reader builds
- `offsets`     planning over maps of offsets: pure functions
- `data_loss`   what is said when offsets are gone
- `discovery`   partitions and offsets, asked of the brokers by the driver
- `reader`      record batches of one range of offsets, on an executor
- `source`      the data source and its batch reader; `stream` its streaming reader
- `sink`        rows written to topics
- `values`      values as typed columns: JSON and Avro
- `offline`     log directories read without a broker
"""

"""Spark reads the log: ``spark.read.format("kafkalog")`` and ``spark.readStream.format("kafkalog")``, without a jar.

- `source`         the data source: which reader or writer a query gets; `batch` and `stream` its readers
- `options`        what a user may set, under the names of Spark's Kafka source; `option_values` how values are read
- `schema`         the columns, and which of them a reader builds
- `offsets`        planning over maps of offsets: pure functions; `admission` the shares of a trigger's limit
- `sizes`          limits in bytes, from samples of record batches
- `filters`        bounds on what is read, from pushed filters
- `patterns`       Java's regular expressions of topics
- `data_loss`      the reports of offsets that are gone
- `discovery`      partitions and offsets, asked of the brokers by the driver
- `small_batches`  small micro-batches, read by the planner
- `progress`       a group's offsets, committed for lag tools
- `tasks`          what the planner sends to executors; `reader` record batches of one range of offsets there
- `compat`         what is private in PySpark, guarded by its version
- `faults`         places where tests have a process die
- `worker`         settings of the Python worker that tasks run in
- `sink`           rows written to topics
- `values`         values as typed columns: JSON and Avro
- `offline`        log directories read without a broker
- `load`           topics loaded into Parquet and Avro files
- `fs`             the file systems of both; `process_cache` connections kept between tasks
- `cli`            the commands of `kafkalog` that need Spark
- `jobs`           streaming jobs to run and to copy
"""

"""Spark's data source for Kafka topics, without a jar: `spark.read.format("kafkalog")` and `spark.readStream`.

PySpark finds `source` through `pyspark_kafkalog`. The options of a query are checked (`options`), the driver asks the
brokers for offsets (`driver`) and plans ranges of them (`plan`), and executors read the ranges (`executor`).

Reading topics:
- `source`         the data source: makes the reader or writer of each query
- `catalog_table`  options of catalog tables, which PySpark does not hand to their readers
- `options`        the options, under the names of Spark's Kafka source
- `delegation`     delegation tokens that the driver gets by Spark's settings
- `columns`        the columns, and which of them a reader builds
- `offsets`        positions in topics, and their JSON form in checkpoints
- `plan`           planning: pure functions
- `driver`         the batch and the stream reader, and requests to brokers
- `executor`       tasks: ranges of offsets to Arrow record batches
- `data_loss`      reports of records that are gone before they were read
- `brief`          errors without tracebacks for what users can mend
- `redaction`      options with secrets, and the line that hides them in plans
- `progress`       how far queries are behind the brokers, from their progress

Built on it:
- `sink`           rows written to topics
- `values`         values as typed columns: JSON and Avro
- `offline`        log directories read without a broker
- `load`           topics loaded into Parquet and Avro files
- `jobs`           streaming jobs to run and to copy
- `cluster`        environments of driver and executors: a check, and an archive that carries one
- `cli`            the commands of `kafkalog` that need Spark

Shared:
- `fs`             file systems, local and remote
- `process_cache`  objects that a process keeps between tasks
- `compat`         everything private of PySpark's, guarded by its version
- `faults`         points where tests kill a process
- `starting`       Python processes that Spark starts, without waiting for their imports
- `daemon`         PySpark's daemon with imports made before workers are forked
"""

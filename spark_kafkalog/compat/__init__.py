"""All uses of private parts of PySpark and other libraries; no other room has any.

Each module says what it uses, why, and what happens if it is missing. A canary in
`tests/spark_kafkalog/compat/test_compat.py` fails when a version changes it. What is private in PySpark is off in
versions that were not tested (`versions`), but for `micro_batch`, which checks each time that it is as it should be.
`precompiled` and `jvm` run when a user asks for them.

- `versions`     the versions of PySpark that this was tested with
- `prefetched`   rows that the planner of a stream sends with its plan; off in untested versions
- `pushed_filters`  whether filters stay with the read that they are pushed to; no filters in untested versions
- `micro_batch`  the micro-batch that a task belongs to; an error if Spark does not name it
- `processes`    whether this process is a Python worker
- `forks`        whether the active SparkContext is of this process, or of one that has forked it
- `application_files`  the directory of an application's files
- `starting`     the programs that the JVM runs with Python, for processes that are forked with their imports made
- `queries`      whether a query has created its sources
- `jvm`          the driver's JVM and programs on executors, for a command
- `jvm_errors`   the JVM's stack trace of an error
- `file_sink`    traces of earlier queries in a directory of Spark's file sink
- `hadoop_files`  small files at paths that Spark can write to
- `precompiled`  byte code in PySpark's archives, added by a command
- `avro`         fastavro's readers
"""

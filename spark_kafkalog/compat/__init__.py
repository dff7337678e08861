"""All uses of private parts of PySpark and other libraries; no other room has any.

Each module says what it uses, why, and what happens if it is missing. A canary in
`tests/spark_kafkalog/compat/test_compat.py` fails when a version changes it. What is private in PySpark is off in
versions that were not tested (`versions`), but for `streams/micro_batch`, which checks each time that it is as it
should be. `workers/precompiled` and `gateway/jvm` run when a user asks for them.

- `versions`        the versions of PySpark that this was tested with
- `pushed_filters`  whether filters stay with the read that they are pushed to; no filters in untested versions
- `avro`            fastavro's readers
- `streams/`        streaming queries: their sources, their micro-batches, their output
- `workers/`        Python processes: which one this is, how the JVM starts them, what they import
- `gateway/`        what the driver reaches in its JVM
"""

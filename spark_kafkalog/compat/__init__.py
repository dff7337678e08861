"""What is private in PySpark and in other libraries: here, behind one door, and nowhere else.

Each module names what it takes, why, and what happens where it is not there. A canary in ``tests/spark/test_compat.py``
fails when a version changes it.

- `versions`     the versions of PySpark that all of this was tested with
- `prefetched`   rows that the planner of a stream sends with its plan; off with a version that was not tested
- `micro_batch`  which micro-batch a task belongs to; an error where Spark does not say
- `processes`    whether this process is a Python worker
- `queries`      whether a query has its sources yet
- `jvm_errors`   the JVM's stack trace behind an error
- `file_sink`    what a query has left in a directory that Spark's file sink writes
- `filters`      whether a reader takes filters
- `precompiled`  byte code in PySpark's archives, put there by a command
- `avro`         fastavro's readers
"""

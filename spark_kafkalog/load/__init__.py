"""Topics into Parquet on HDFS, exactly once: a load's rows and its offsets are published by one rename.

Pure:
- `names`      the names of the layout
- `document`   ``_offsets.json``, the only state
- `plan`       what to load: ranges, losses, refusals
- `faults`     where tests let a load die

Over a file system:
- `files`      what is needed of one, and the local one; `hdfs`
- `staging`    directories of runs, their leases, and the sweeping of dead ones
- `published`  the loads of a topic, and publishing the next
- `write`      one split into files, on an executor
- `compact`    small files into big ones, under the eyes of readers

Together:
- `job`        a load of topics; `options` what a user may set; `runner` Spark, or threads
- `command`    options and output of ``kafkalog load`` and of the spark-submit application
               (``spark_kafkalog.jobs.load``)
"""

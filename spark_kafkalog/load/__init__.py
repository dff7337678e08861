"""Topics into Parquet on HDFS, exactly once: a load's rows and its offsets are published by one rename.

Pure:
- `options`    what a user may set; `arguments` the same as arguments of a command line
- `names`      the names of the layout
- `document`   ``_offsets.json``, the only state
- `plan`       what to load: ranges, losses, refusals

Over a file system (``spark_kafkalog.fs``):
- `staging`    directories of runs, their leases, and the sweeping of dead ones
- `published`  the loads of a topic, and publishing the next
- `write`      one split into files, on an executor; `formats` what is in them
- `compact`    small files into big ones, under the eyes of readers

Together:
- `job`        a load of topics; `runner` Spark, or threads; `progress` a bar on the terminal
- `status`     what was loaded, and how far behind the brokers that is
- `command`    running and output of ``kafkalog load`` and of the spark-submit application
               (``spark_kafkalog.jobs.load``)
"""

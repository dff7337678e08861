"""Topics into Parquet on HDFS, exactly once: one rename publishes a load's rows together with its offsets.

Pure:
- `load_options`  what a user may set; `arguments` the same as command-line arguments
- `load_plan`     what to load: ranges, losses, refusals

Over a file system (`spark_kafkalog.fs`):
- `layout`        the directory that loads write: names, `_offsets.json`, staging, publishing
- `write`         on executors: one split into files; `formats` their contents
- `compact`       merges small files into large ones while readers use them; `compact_plan` chooses the files

Together:
- `job`           a load of topics; `runner` runs its tasks, by Spark or by threads
- `progress_bar`  a progress bar on the terminal
- `status`        what was loaded, and how far the loads lag behind the brokers
- `command`       running and output of `kafkalog load` and of the spark-submit application
                  (`spark_kafkalog.jobs.load`)
"""

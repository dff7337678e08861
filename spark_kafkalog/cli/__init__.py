"""The commands of `kafkalog` that need Spark.

- `commands`      the table of them, which pyproject.toml announces as an entry point
- `load`          `kafkalog load`; the work is done by `spark_kafkalog.load`
- `quickstart`    `kafkalog quickstart`
- `spark`         `kafkalog spark`
- `warm`          `kafkalog spark warm`
- `pack`          `kafkalog spark pack`
- `byte_code`     Python byte code of the packages that a task imports
- `local_broker`  a broker as a child process, for the quickstart and the notebooks
- `quiet_spark`   a local Spark session that prints nothing
- `requirements`  what to install where PySpark or Java is missing
- `sample_input`  text for the quickstart
"""

"""The programs that the JVM runs with Python, and what they import.

Their names are constants of Spark's Scala code. With an untested PySpark nothing is forked: the launcher runs Python as
the JVM asked for it. An import that fails is left to the process that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

DAEMON = "pyspark.daemon"
"""Forks Python workers; its argument is the module of the workers. The default of `spark.python.daemon.module`."""
STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""The planner of a stream."""
_OF_DRIVER = "pyspark.sql.worker."
"""The package of the modules that only a driver runs: they look sources up, create them and plan what they read."""
DRIVER_IMPORTS = (
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.datasource_internal",
    "pyspark.sql.pandas.serializers",
)
"""The modules that the driver's processes import.

`DAEMON` and `STREAM_PLANNER` are not among them: Python runs these as `__main__`, and warns if one is imported before.
"""
TASK_IMPORTS = ("pyspark.worker",)
"""The imports of tasks."""


def is_of_driver(arguments: Sequence[str]) -> bool:
    """Return whether Python's arguments run a program that only a driver starts."""
    if arguments[:1] != ["-m"]:
        return False
    if len(arguments) == 2:
        return arguments[1] == STREAM_PLANNER
    return len(arguments) == 3 and arguments[1] == DAEMON and arguments[2].startswith(_OF_DRIVER)


def is_daemon(arguments: Sequence[str]) -> bool:
    """Return whether Python's arguments run PySpark's daemon."""
    return len(arguments) == 3 and list(arguments[:2]) == ["-m", DAEMON]

"""The directory of an application's files (`SparkFiles`), on the driver and in the processes that plan queries.

`SparkFiles.getRootDirectory` fails where there is no application. Only private attributes tell that beforehand.
"""

from __future__ import annotations

from pathlib import Path

from spark_kafkalog.compat.workers.forks import active_context, has_own_context


def directory() -> Path | None:
    """Return the directory; None in a process of no application, such as a client of Spark Connect.

    For sessions with files of their own, it is a subdirectory of the application's.
    """
    try:
        from pyspark import SparkFiles
    except ImportError:
        # PySpark without a JVM (`pyspark-client`).
        return None
    if getattr(SparkFiles, "_is_running_on_worker", False):
        found = getattr(SparkFiles, "_root_directory", None)
    else:
        found = SparkFiles.getRootDirectory() if active_context() is not None and has_own_context() else None
    return None if found is None else Path(found)

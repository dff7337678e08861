"""The Python that Spark takes to look for a source and to run it.

Spark's JVM on the driver takes `PYSPARK_DRIVER_PYTHON`, else `PYSPARK_PYTHON`, else `python3`, all from its own
environment, to look for sources (`PythonUtils.defaultPythonExec`). The same word goes to the executors with each
source that was found. An application that registers a source itself sends what its own process has in `PYSPARK_PYTHON`
(`SparkContext.pythonExec`), and `spark-submit` sets that from `spark.pyspark.python`.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""Variables of the driver's JVM, the first one first."""
UNUSED = ("spark.pyspark.driver.python", "spark.pyspark.python")
"""Settings that name a Python for the application and its functions, and none for sources."""
DEFAULT = "python3"


def of_sources(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the Python that looks for sources and runs them, and what names it."""
    for name in NAMES:
        if name in environment:
            return environment[name], name
    return DEFAULT, "the default"

"""The kind of PySpark process that this is."""

from __future__ import annotations

import sys

from spark_kafkalog.compat.versions import is_tested

_DAEMON = "pyspark.daemon"
"""The module that the JVM starts as the main program; it forks Python workers."""


def is_worker() -> bool:
    """Return whether this process runs Spark's tasks, and user code only as part of them.

    If PySpark starts workers in another way, or was not tested, the answer is False, and the garbage collector scans
    compiled kernels after each task.
    """
    main = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
    return main == _DAEMON and is_tested()

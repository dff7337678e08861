"""Which of PySpark's processes this is."""

from __future__ import annotations

import sys

_DAEMON = "pyspark.daemon"
"""The module that the JVM starts as the main program, and that Python workers are forked from."""


def is_worker() -> bool:
    """Whether this process runs tasks of Spark, and nothing of the user's but what tasks call.

    Where PySpark starts workers in another way, no process is taken for one, and the garbage collector looks at
    compiled kernels after each task.
    """
    return getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None) == _DAEMON

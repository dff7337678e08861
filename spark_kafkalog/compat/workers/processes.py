"""The kind of PySpark process that this is."""

from __future__ import annotations

import sys

from spark_kafkalog.compat.versions import is_tested
from spark_kafkalog.compat.workers.starting import DAEMON, STREAM_PLANNER


def is_worker() -> bool:
    """Return whether this process runs Spark's tasks, and user code only as part of them.

    If PySpark starts workers in another way, or was not tested, the answer is False, and the garbage collector scans
    compiled kernels after each task.
    """
    return _main() == DAEMON and is_tested()


def serves_jvm() -> bool:
    """Return whether the JVM has started this process, to run tasks or to plan: a worker, or the planner of a stream.

    The answer is False where PySpark starts it in another way, or was not tested.
    """
    return _main() in (DAEMON, STREAM_PLANNER) and is_tested()


def _main() -> str | None:
    """Return the module that this process, or the one that has forked it, was started with."""
    return getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)

"""What a Python worker of Spark does once for all the tasks that it runs, one after another."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.records.allocator import keep_freed_memory

_DAEMON = "pyspark.daemon"

_is_settled = False


@contextmanager
def task() -> Iterator[None]:
    """Around the work of a task: memory that it frees is kept for the next one, and nothing that stays is looked at
    after each.

    PySpark's workers collect garbage after every task. With compiled kernels loaded there are 130,000 objects to look
    at, which took 50 ms of a task's 60 where it has few records; none of them is ever garbage. They are set aside
    (``gc.freeze``) after the first task that has loaded them, in PySpark's workers only.
    """
    if not _is_settled:
        keep_freed_memory()
    try:
        yield
    finally:
        _settle()


def _settle() -> None:
    global _is_settled
    if _is_settled or not _in_worker() or "numba" not in sys.modules:
        return
    _is_settled = True
    gc.collect()
    gc.freeze()


def _in_worker() -> bool:
    """Whether this is a process of PySpark's that runs tasks, and nothing of the user's but what tasks call."""
    return getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None) == _DAEMON

"""Settings of the Python process that tasks run in. Spark keeps its Python workers for many tasks."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spark_kafkalog.compat.workers.processes import is_worker
from spark_kafkalog.executor.allocator import keep_freed_memory
from spark_kafkalog.options.parsing import OptionsError, size_or_none

KEEP_FREED_MEMORY = "KAFKALOG_KEEP_FREED_MEMORY"
"""The environment variable that applies if option `keepFreedMemory` is not set."""

logger = logging.getLogger(__name__)


class Worker:
    """The settings of one process, each applied once."""

    def __init__(self) -> None:
        self._kept = 0
        self._default: int | None = None
        self._is_settled = False

    def keep_freed_memory(self, most: int) -> None:
        """Make the C library keep freed memory. The largest number requested so far holds until the process ends."""
        if self._default is None:
            self._default = _from_environment()
        most = most or self._default
        if most > self._kept:
            self._kept = most
            if not keep_freed_memory(most):
                logger.warning("keepFreedMemory has no effect: this platform's C library is not glibc")

    def settle(self) -> None:
        """Exclude permanent objects from garbage collection.

        PySpark's workers collect garbage after every task. With compiled kernels loaded the collector scans 130,000
        objects, none of which is ever garbage. That took 50 of the 60 ms of a task with few records. So after the first
        task that has loaded the kernels, the objects are frozen (`gc.freeze`), in PySpark's workers only.
        """
        if self._is_settled or "numba" not in sys.modules or not is_worker():
            return
        self._is_settled = True
        gc.collect()
        gc.freeze()


_worker = Worker()


@contextmanager
def task(keep_freed: int = 0) -> Iterator[None]:
    """Apply the settings around the work of a task. `keep_freed` is option `keepFreedMemory`, in bytes."""
    _worker.keep_freed_memory(keep_freed)
    try:
        yield
    finally:
        _worker.settle()


def _from_environment() -> int:
    text = os.environ.get(KEEP_FREED_MEMORY, "")
    try:
        return size_or_none(KEEP_FREED_MEMORY, text) if text else 0
    except OptionsError as error:
        logger.warning("it is not used: %s", error)
        return 0

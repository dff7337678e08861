"""Runs tasks concurrently: as a Spark job, or in threads of this process."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol, TypeVar

from spark_kafkalog.executor.stopping import Stop, obeying

T = TypeVar("T")
R = TypeVar("R", bound="Counted")

_ERROR_LINE = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Za-z_]\w*(?:Error|Exception|Interrupt)): ")


class Counted(Protocol):
    """The result of a task, with the amount of its work."""

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int: ...


class Runner(Protocol):
    """Runs tasks."""

    @property
    def parallelism(self) -> int:
        """Return how many tasks run at a time."""

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """Return `work`'s results for all tasks, in order. It ends when no task runs any more, after a failure, too.

        Raises:
            Exception: A task has failed. This is the first failure.
        """

    def progress(self) -> tuple[int, int]:
        """Return rows and bytes of the finished tasks."""


class TaskFailedError(RuntimeError):
    """A task failed on an executor; the message is that of the executor's error."""


class ThreadRunner:
    """Runs tasks in threads of this process."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self._lock = threading.Lock()
        self._rows = self._bytes = 0

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        stop = Stop()

        def stoppable(task: T) -> R:
            with obeying(stop):
                return work(task)

        with ThreadPoolExecutor(self.parallelism, thread_name_prefix="load") as pool:
            try:
                running = [pool.submit(stoppable, task) for task in tasks]
                for future in as_completed(running):
                    done = future.result()
                    with self._lock:
                        self._rows += done.rows
                        self._bytes += done.bytes
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                # The block waits for those that run.
                stop.request()
                raise
            return [future.result() for future in running]

    def progress(self) -> tuple[int, int]:
        with self._lock:
            return self._rows, self._bytes


class _Counting:
    """Does a task's work on an executor, and counts it in accumulators for the driver."""

    def __init__(self, work: Callable[[T], R], rows: Any, size: Any) -> None:
        self._work: Callable[[Any], Any] = work
        self._rows = rows
        self._size = size

    def __call__(self, task: Any) -> Any:
        done = self._work(task)
        self._rows.add(done.rows)
        self._size.add(done.bytes)
        return done


class SparkRunner:
    """Runs each task as a Spark task."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._rows = context.accumulator(0)
        self._size = context.accumulator(0)

    @property
    def parallelism(self) -> int:
        return int(self._context.defaultParallelism)

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        if not tasks:
            return []
        counting = _Counting(work, self._rows, self._size)
        try:
            found: list[R] = self._context.parallelize(tasks, len(tasks)).map(counting).collect()
        except Py4JJavaError as error:
            raise TaskFailedError(task_error(str(error.java_exception.getMessage()))) from None
        return found

    def progress(self) -> tuple[int, int]:
        # A task that Spark ran twice may be counted twice.
        return int(self._rows.value), int(self._size.value)


def task_error(text: str) -> str:
    """Extract the last line of a Python task's traceback from Spark's report; else the report's first line."""
    found = ""
    for line in text.splitlines():
        if match := _ERROR_LINE.match(line):
            found = line[match.start(1) :]
    return found or text.strip().split("\n")[0]

"""Runs a streaming job as a process: its session, its queries until they end or are stopped, figures and exit code."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkalog.client.errors import ClientError, KafkaError
from kafkalog.signalled import SignalledEvent
from spark_kafkalog.compat.gateway.jvm_errors import jvm_stack_trace
from spark_kafkalog.compat.streams.queries import is_initializing
from spark_kafkalog.jobs.arguments import PRODUCER_PROPERTY, UsageError
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.redaction import hide_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OK, FAILED, USAGE = 0, 1, 2

LATE = "late"
"""The name of the figure that counts rows that came after their window was written."""

_POLL_SECONDS = 1
_STARTING_POLL_SECONDS = 0.05
_PYTHON_ERROR = re.compile(
    r"^(?:[\w.]+\.)?(?!UnboundLocalError)\w*(?:Error|Exception): (?:Could not serialize object: \w+: )?(.+)$",
    re.MULTILINE,
)
"""An error line in a traceback, except the UnboundLocalError that PySpark's clean-up of a failed source adds.

If the sink fails while its writer is pickled, PySpark puts `Could not serialize object` before the message. This prefix
is left out.
"""

_LIMIT = "kafka.max.request.size"
"""An option of the sink that its errors name; a job sets it by another one."""

_JVM_CAUSE = re.compile(r"^Caused by: (.+?)\s*$", re.MULTILINE)
"""A cause in a stack trace; the last one is the root cause."""


def run(name: str, job: Callable[[], None]) -> int:
    """Run a job and return its exit code. Print errors in one line on standard error.

    (spark-submit passes on what its application prints there on standard output, too.)
    """
    try:
        job()
    except (UsageError, OptionsError) as error:
        return _complain(name, str(error), USAGE)
    except ModuleNotFoundError as error:
        return _complain(name, f"{error}; this job needs Spark and pyarrow: pip install 'kafkalog[spark]'", FAILED)
    except Exception as error:
        from pyspark.errors import PySparkException

        if not isinstance(error, PySparkException | OSError | KafkaError | ClientError):
            raise
        told = cause(str(error), jvm_stack_trace(error))
        return _complain(name, told.replace(_LIMIT, f"{PRODUCER_PROPERTY} {_LIMIT.removeprefix('kafka.')}"), FAILED)
    return OK


def cause(text: str, stack: str = "") -> str:
    """Return the cause of an error of Spark: the last Python error that it quotes.

    If it quotes none, return its first line and the root cause in the JVM's `stack` trace.
    """
    quoted = _PYTHON_ERROR.findall(text)
    if quoted:
        return str(quoted[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = lines[0] if lines else "it failed without a word"
    behind = _JVM_CAUSE.findall(stack)
    return told if not behind or behind[-1] in told else f"{told} (caused by {behind[-1]})"


def _complain(name: str, message: str, code: int) -> int:
    print(f"{name}: {message}", file=sys.stderr, flush=True)
    return code


def session(name: str, master: str | None) -> SparkSession:
    """Return the application's session. Unless it is configured otherwise, state has a partition for each core."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    spark: SparkSession = builder.getOrCreate()
    context = spark.sparkContext
    if not context.getConf().contains("spark.sql.shuffle.partitions"):
        # Spark's default of 200 would mean that many state stores and tasks in each micro-batch. A checkpoint keeps its
        # first number.
        spark.conf.set("spark.sql.shuffle.partitions", str(context.defaultParallelism))
    hide_secrets(spark)
    return spark


class Figures:
    """Sums over the micro-batches of this run, of the metrics that its queries observe."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        """The last micro-batch that was added, by the run of a query."""

    def take(self, query: StreamingQuery) -> None:
        """Add the query's reports since the last call; it keeps its last 100 reports."""
        for progress in query.recentProgress:
            observed = progress["observedMetrics"]
            run, batch = str(query.runId), int(progress["batchId"])
            # A trigger that found nothing reports the number of the next batch, and no metrics.
            if observed and batch > self._last.get(run, -1):
                self._last[run] = batch
                self.add(observed, progress["stateOperators"])

    def add(self, observed: Mapping[str, Any], state: Sequence[Mapping[str, Any]]) -> None:
        """Add one report's observed metrics and state operators."""
        for row in observed.values():
            found = row.asDict() if hasattr(row, "asDict") else row
            for name, value in found.items():
                self.sums[name] += int(value or 0)
        for operator in state:
            self.sums[LATE] += int(operator["numRowsDroppedByWatermark"])


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Return an event that SIGTERM and SIGINT set, so that a job can end in good order."""
    asked = SignalledEvent((signal.SIGTERM, signal.SIGINT))
    try:
        yield asked
    finally:
        asked.close()


def run_queries(writers: Sequence[DataStreamWriter], figures: Figures) -> None:
    """Start all queries, and wait until all have ended or a signal arrives.

    If a query fails, the others are stopped, too.

    Raises:
        StreamingQueryException: A query has failed.
        Exception: A query could not be started.
    """
    running: list[StreamingQuery] = []
    with stop_signals() as asked:
        try:
            for writer in writers:
                # Start them one by one: if the second does not start, the first must be stopped.
                running.append(writer.start())
                _await_sources(running[-1], asked)
            while running and not asked.is_set():
                for query in list(running):
                    if query.awaitTermination(_POLL_SECONDS):
                        running.remove(query)
                    figures.take(query)
            for query in running:
                if not query.isActive:
                    # It has ended since it was last asked. If it has failed, this raises its error.
                    query.awaitTermination()
        finally:
            for query in running:
                query.stop()
                figures.take(query)


def _await_sources(query: StreamingQuery, asked: threading.Event) -> None:
    """Wait until the query has made its sources, has failed, or a signal says stop.

    Spark's queries share one environment of a Python source, a Scala map that each fills in without a lock: two that
    begin in the same moment in a new JVM leave it with a wrong count, and then no task of either can be serialized.
    """
    while is_initializing(query) and not asked.wait(_STARTING_POLL_SECONDS):
        pass


def report(figures: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Print the figures on standard output."""
    print(json.dumps(figures) if as_json else text, flush=True)

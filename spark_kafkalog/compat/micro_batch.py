"""Which micro-batch a task belongs to: local properties that Spark's micro-batch execution sets for its jobs.

Their names, ``sql.streaming.queryId`` and ``streaming.sql.batchId``, are constants of Spark's Scala code and no public
interface. Each task looks whether they are there, so that a version that renames them is noticed, not trusted.
"""

from __future__ import annotations

from pyspark import TaskContext

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


def query_id() -> str | None:
    """The id of the streaming query whose task runs on this thread; None where Spark names none."""
    return _property(QUERY)


def batch_id() -> int | None:
    """The number of its micro-batch; None where Spark names none."""
    number = _property(BATCH)
    return int(number) if number else None


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) or None if context else None

"""The micro-batch that a task belongs to, from local properties that Spark sets for the jobs of a micro-batch.

Their names, `sql.streaming.queryId` and `streaming.sql.batchId`, are constants of Spark's Scala code, not a public
interface. Each task checks that they are set and refuses to write otherwise, so a version that renames them is
noticed. For that reason this works with untested versions, too: a sink that writes exactly once must go on after an
update of PySpark.
"""

from __future__ import annotations

from pyspark import TaskContext

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


def query_id() -> str | None:
    """Return the id of the streaming query whose task runs on this thread; None if Spark names none."""
    return _property(QUERY)


def batch_id() -> int | None:
    """Return the number of that query's micro-batch; None if Spark names none."""
    number = _property(BATCH)
    return int(number) if number else None


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) or None if context else None

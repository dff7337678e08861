"""The state of a streaming query that has just been started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafkalog.compat.versions import is_tested

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_INITIALIZING = "Initializing"


def is_initializing(query: StreamingQuery) -> bool:
    """Return whether a query is still creating its sources.

    Only the text of Spark's status tells ("Initializing sources"). If Spark changes that text, or this PySpark was not
    tested, a query counts as begun at once.
    """
    return is_tested() and bool(query.isActive) and str(query.status["message"]).startswith(_INITIALIZING)

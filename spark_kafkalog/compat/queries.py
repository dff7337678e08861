"""The state of a streaming query that has just been started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_INITIALIZING = "Initializing"


def is_initializing(query: StreamingQuery) -> bool:
    """Return whether a query is still creating its sources.

    Only the text of Spark's status tells ("Initializing sources"). If Spark changes that text, a query counts as begun
    at once.
    """
    return bool(query.isActive) and str(query.status["message"]).startswith(_INITIALIZING)

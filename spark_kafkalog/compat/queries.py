"""The state of a streaming query that has just been started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_INITIALIZING = "Initializing"


def is_initializing(query: StreamingQuery) -> bool:
    """Whether a query is still making its sources.

    Spark tells by the text of its status alone ("Initializing sources"). Where it says it in other words, a query is
    taken as begun at once.
    """
    return bool(query.isActive) and str(query.status["message"]).startswith(_INITIALIZING)

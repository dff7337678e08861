"""Rows that the planner of a stream sends to the JVM with its plan.

PySpark has this for its ``SimpleDataSourceStreamReader`` alone: the planner asks for rows (``getCache``) where the
reader is an instance of ``pyspark.sql.datasource_internal._SimpleStreamReaderWrapper``. A reader that is both, a stream
reader and one with rows, has no public way to say so; it answers to that class while it has rows.

With a PySpark that was not tested, or without that class, there are no such rows, and tasks read every micro-batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from .versions import is_tested

_MODULE, _NAME = "pyspark.sql.datasource_internal", "_SimpleStreamReaderWrapper"


def find_wrapper(*, tested: bool) -> type | None:
    """The class that PySpark's planner asks for rows; None where it is not there or not tested."""
    if not tested:
        return None
    try:
        found = getattr(importlib.import_module(_MODULE), _NAME, None)
    except ImportError:
        return None
    return found if isinstance(found, type) and hasattr(found, "getCache") else None


WRAPPER = find_wrapper(tested=is_tested())


class RowsInPlanner(DataSourceStreamReader):
    """A reader that may have the rows of the batch that it has just planned (``rows``), and then gives them away.

    PySpark's planner sees an instance of the class that it asks for rows while there are any. At other times that class
    would hide what else a reader can do (``reportLatestOffset``).
    """

    rows: list[Any] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if self.rows is None or WRAPPER is None else WRAPPER

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:  # noqa: N802
        """Record batches of the plan's rows. Called by PySpark, after ``partitions`` and with its arguments."""
        rows, self.rows = self.rows, None
        return None if rows is None else iter(rows)

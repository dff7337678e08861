"""Rows that the planner of a stream sends to the JVM with its plan.

PySpark has this only for its `SimpleDataSourceStreamReader`: the planner asks for rows (`getCache`) if the reader
is an instance of `pyspark.sql.datasource_internal._SimpleStreamReaderWrapper`. There is no public way to be a stream
reader that also has rows. So while our reader has rows, its `__class__` claims to be that class.

With an untested PySpark, or without that class, there are no such rows, and tasks read every micro-batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from spark_kafkalog.compat.versions import is_tested

_MODULE, _NAME = "pyspark.sql.datasource_internal", "_SimpleStreamReaderWrapper"


def find_wrapper(*, tested: bool) -> type | None:
    """Find the class that PySpark's planner asks for rows; None if it is missing or PySpark's version is untested."""
    if not tested:
        return None
    try:
        found = getattr(importlib.import_module(_MODULE), _NAME, None)
    except ImportError:
        return None
    return found if isinstance(found, type) and hasattr(found, "getCache") else None


WRAPPER = find_wrapper(tested=is_tested())


class RowsInPlanner(DataSourceStreamReader):
    """A reader that may have the rows of the batch that it has just planned (`rows`), and hands them over.

    While there are rows, PySpark's planner sees an instance of the class that it asks for rows. At other times that
    class would hide other abilities of a reader (`reportLatestOffset`).
    """

    rows: list[Any] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if self.rows is None or WRAPPER is None else WRAPPER

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:  # noqa: N802
        """Return record batches of the plan's rows. PySpark calls it after `partitions`, with its arguments."""
        rows, self.rows = self.rows, None
        return None if rows is None else iter(rows)

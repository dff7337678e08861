"""Filter push-down: PySpark knows a reader that takes filters by its having another ``pushFilters`` than the base's."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader


def takes_filters(reader: DataSourceReader) -> bool:
    """Whether PySpark will hand filters to this reader; it refuses such a reader where the setting is off."""
    return getattr(type(reader), "pushFilters", None) is not getattr(DataSourceReader, "pushFilters", None)

"""Filter push-down: PySpark pushes filters to a reader whose `pushFilters` differs from the base class's."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader


def takes_filters(reader: DataSourceReader) -> bool:
    """Return whether PySpark pushes filters to this reader. It refuses such a reader if the setting is off."""
    return getattr(type(reader), "pushFilters", None) is not getattr(DataSourceReader, "pushFilters", None)

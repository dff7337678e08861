"""Tell whether PySpark keeps the filters that it pushes to one read of a frame from the frame's other reads.

`PythonScanBuilder.pushFilters` plans the read with the filters. PySpark 4.2 and 4.3 keep that plan with the relation
(`PythonDataSourceV2.setReadInfo`). All other reads of the same frame, view or table then use it, in the same query and
in later ones, so they lack the rows that the filters excluded. There is no remedy in a reader: it has to plan before it
learns whether it is the only one. Later versions give the plan to the scan. That came with the public method
`DataSourceReader.pushLimit`, so its presence tells.

With an untested PySpark, no filters are taken.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader

from spark_kafkalog.compat.versions import is_tested


def stay_with_their_scan(reader: type = DataSourceReader, *, tested: bool | None = None) -> bool:
    """Return whether a reader may narrow its ranges by pushed filters. `reader` is PySpark's base class."""
    return (is_tested() if tested is None else tested) and hasattr(reader, "pushLimit")

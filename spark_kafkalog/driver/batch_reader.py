"""The reader of a batch query."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyspark
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from spark_kafkalog import offsets
from spark_kafkalog.brief import brief, brief_rows
from spark_kafkalog.columns import columns_of
from spark_kafkalog.compat import pushed_filters
from spark_kafkalog.executor.tasks import read_task, tasks
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.plan.filter_bounds import Bounds, narrow, push
from spark_kafkalog.plan.ranges import batch_ranges
from spark_kafkalog.plan.start_and_end import resolve

logger = logging.getLogger(__name__)


def batch_reader(options: SourceOptions, schema: StructType) -> KafkalogBatchReader:
    """Make the reader of a batch query. It takes filters if the query asks for it and PySpark keeps them apart."""
    if options.filter_pushdown and pushed_filters.stay_with_their_scan():
        return FilteringBatchReader(options, schema)
    if options.filter_pushdown:
        logger.warning(
            "filterPushdown has no effect with PySpark %s, which would apply the filters of one use of a frame to its "
            "other uses; Spark applies all filters to the rows",
            pyspark.__version__,
        )
    return KafkalogBatchReader(options, schema)


class KafkalogBatchReader(DataSourceReader):
    """Reads a batch query. Its offsets are fixed when it is planned: all actions on a DataFrame see the same rows.

    PySpark plans it for the first action, and keeps the plan for the later ones.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        columns_of(schema)
        self._starting, self._ending = options.batch_limits()

    @brief
    def partitions(self) -> Sequence[InputPartition]:
        from spark_kafkalog.driver.discovery import Discovery
        from spark_kafkalog.plan.byte_sizes import measure_for

        discovery = Discovery(self._options)
        try:
            assigned, topics = discovery.assigned()
            starts = resolve(self._starting, assigned, discovery.lookup, starting=True)
            ends = resolve(self._ending, assigned, discovery.lookup, starting=False)
            ranges = self.narrowed(batch_ranges(starts, ends), discovery.lookup)
            measure = measure_for(self._options, ranges, discovery.densities)
        finally:
            discovery.close()
        return tasks(ranges, topics, self._options, measure)

    def narrowed(self, ranges: list[offsets.OffsetRange], lookup: offsets.Lookup) -> list[offsets.OffsetRange]:
        """Return the parts of `ranges` to read; `lookup` asks brokers for offsets of timestamps."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return brief_rows(read_task(partition, self._options, self._schema))


class FilteringBatchReader(KafkalogBatchReader):
    """The batch reader with `filterPushdown`, for versions of PySpark that keep the filters of reads apart.

    A class of its own: PySpark refuses a reader that has `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is off.
    """

    _bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._bounds, remaining = push(filters)
        return remaining

    def narrowed(self, ranges: list[offsets.OffsetRange], lookup: offsets.Lookup) -> list[offsets.OffsetRange]:
        return narrow(ranges, self._bounds, lookup)

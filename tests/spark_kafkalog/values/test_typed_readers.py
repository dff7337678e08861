"""Test which readers are wrapped by one that takes filters."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader

from spark_kafkalog.driver.batch_reader import FilteringBatchReader, KafkalogBatchReader
from spark_kafkalog.values.typed_readers import takes_filters


def test_readers_that_take_filters() -> None:
    assert hasattr(DataSourceReader, "pushFilters")
    assert takes_filters(object.__new__(FilteringBatchReader))
    assert not takes_filters(object.__new__(KafkalogBatchReader))

"""Test that Arrow libraries use the batches of `read_arrow` without copying numbers and bytes.

Each test imports its library itself: collecting the tests would take a second longer otherwise, in each worker.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafkalog.client.types import TopicPartition
from tests.kafkalog.client.consumer.support import DEADLINE_S, Live, values

COUNT = 500


@pytest.fixture
def batch(live: Live) -> pa.RecordBatch:
    topic = live.topic(1)
    live.produce(topic, 0, values(COUNT))
    with live.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        columns = ("value", "offset", "timestamp")
        got: list[pa.RecordBatch] = []
        for each in consumer.read_arrow(columns, timeout=DEADLINE_S):
            got.append(each)
            if sum(batch.num_rows for batch in got) == COUNT:
                break
    assert len(got) == 1, "one fetch brings one batch"
    return got[0]


def addresses(array: Any) -> set[int]:
    """Return the addresses of the buffers of an Arrow array."""
    arrays = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return {buffer.address for each in arrays for buffer in each.buffers() if buffer is not None}


def test_pandas(batch: pa.RecordBatch) -> None:
    import pandas as pd

    frame = batch.to_pandas(types_mapper=pd.ArrowDtype)
    assert list(frame["offset"]) == list(range(COUNT))
    for name in batch.schema.names:
        assert addresses(pa.array(frame[name])) <= addresses(batch.column(name))


def test_polars(batch: pa.RecordBatch) -> None:
    import polars as pl

    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    assert frame["value"].to_list() == values(COUNT)
    assert frame["offset"].to_arrow().buffers()[1].address == batch.column("offset").buffers()[1].address


def test_duckdb(batch: pa.RecordBatch) -> None:
    import duckdb

    table = pa.Table.from_batches([batch])
    connection = duckdb.connect()
    connection.register("records", table)
    found = connection.sql('SELECT count(*), min("offset"), max("offset"), count(value) FROM records').fetchall()
    assert found == [(COUNT, 0, COUNT - 1, COUNT)]

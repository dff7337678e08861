"""Test that cutting and joining batches loses nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.producer.arrow.arrow_rows import chunks
from kafkalog.client.producer.batches.record_encoding import HEADER_OVERHEAD, KEY_OVERHEAD, PLAIN_OVERHEAD
from spark_kafkalog.sink.sink_columns import SinkColumns
from tests.spark_kafkalog.sink.support import batch_of, columns

SCHEMA = columns("key", "value", "topic", "partition", "headers")
COLUMNS = SinkColumns.of(SCHEMA, None)

blobs = st.none() | st.binary(max_size=30)
headers = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=4), "value": blobs}), max_size=2)
rows = st.fixed_dictionaries(
    {
        "key": blobs,
        "value": blobs,
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.none() | st.integers(0, 3),
        "headers": headers,
    }
)


@given(st.lists(st.lists(rows, max_size=8), max_size=6), st.integers(1, 2000))
def test_nothing_is_lost(batches: list[list[dict[str, Any]]], size: int) -> None:
    found = list(chunks([batch_of(SCHEMA, each) for each in batches], COLUMNS, size))
    assert all(len(chunk) for chunk in found)
    for name, field in (
        ("key", "keys"),
        ("value", "values"),
        ("topic", "topics"),
        ("partition", "partitions"),
        ("headers", "headers"),
    ):
        seen = [value for chunk in found for value in getattr(chunk, field).to_pylist()]
        assert seen == [row[name] for batch in batches for row in batch]


def test_sizes() -> None:
    schema = columns("value")
    few = batch_of(schema, [{"value": b"x" * 1000}] * 10)
    many = batch_of(schema, [{"value": b"x" * 1000}] * 100)
    plain = SinkColumns.of(schema, "t")
    assert [len(chunk) for chunk in chunks([few] * 5, plain, 25_000)] == [30, 20]
    assert [len(chunk) for chunk in chunks([many], plain, 25_000)] == [40, 40, 20]
    # A row larger than a chunk is one.
    assert [len(chunk) for chunk in chunks([few], plain, 10)] == [1] * 10


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.string_view()])
def test_other_arrow_types_are_taken_as_bytes(kind: pa.DataType) -> None:
    text = ["", None, "é"]
    batch = pa.RecordBatch.from_arrays([pa.array(text, pa.string()).cast(kind)], ["value"])
    (chunk,) = chunks([batch], SinkColumns(value=0), 100)
    assert chunk.values.type == pa.binary()
    assert chunk.values.to_pylist() == [b"", None, "é".encode()]


def test_record_sizes() -> None:
    batch = batch_of(
        SCHEMA,
        [
            {
                "key": b"k" * 5,
                "value": b"v" * 7,
                "headers": [{"key": "é", "value": b"123"}, {"key": "", "value": None}],
            },
            {"key": None, "value": None, "headers": None},
        ],
    )
    (chunk,) = chunks([batch], COLUMNS, 100_000)
    empty = PLAIN_OVERHEAD + KEY_OVERHEAD
    assert chunk.record_sizes().tolist() == [empty + 5 + 7 + 2 * HEADER_OVERHEAD + 2 + 3, empty]

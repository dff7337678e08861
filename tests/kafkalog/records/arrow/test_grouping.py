"""Tests of grouping rows: key hashes against the plain twin and the Java client, order of groups, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.client.producer.partitioner import murmur2
from kafkalog.records.arrow import encode_arrow
from kafkalog.records.arrow.grouping import NO_KEY, group_rows, hash_keys, headers_lengths, lengths
from kafkalog.records.arrow.integers import to_arrow, to_numpy
from kafkalog.records.batch import decode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordTooLargeError
from tests.kafkalog.client.producer.known_hashes import KNOWN

pytestmark = pytest.mark.usefixtures("each_build")

blobs = st.none() | st.binary(max_size=40)


def expected_hash(key: bytes | None) -> int:
    return NO_KEY if key is None else murmur2(key) & 0x7FFFFFFF


def test_hashes_of_the_java_client() -> None:
    keys = pa.array(list(KNOWN), pa.binary())
    assert hash_keys(keys).tolist() == [signed & 0x7FFFFFFF for signed in KNOWN.values()]


@settings(max_examples=300)
@given(st.lists(blobs, max_size=30), st.integers(0, 3), st.integers(0, 3))
def test_hashes_equal_the_plain_twin_s(keys: list[bytes | None], skip: int, cut: int) -> None:
    # Slices, so that the array's own offset matters to its offsets and to its bitmap.
    whole = pa.array(keys, pa.binary())
    sliced = whole[skip : max(len(keys) - cut, skip)]
    assert hash_keys(sliced).tolist() == [expected_hash(key) for key in keys[skip : max(len(keys) - cut, skip)]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_hashes_of_other_types_are_those_of_their_bytes(kind: pa.DataType) -> None:
    text = ["", "a", "é", None, "kafka" * 100]
    keys = [None if each is None else each.encode() for each in text]
    column = pa.array(text, pa.string()).cast(kind)
    assert hash_keys(column).tolist() == [expected_hash(key) for key in keys]


def test_no_keys_at_all() -> None:
    assert hash_keys(pa.array([], pa.binary())).tolist() == []
    assert hash_keys(pa.nulls(3, pa.binary())).tolist() == [NO_KEY] * 3


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), max_size=60))))
def test_groups_keep_order_and_lose_nothing(case: tuple[int, list[int]]) -> None:
    count, groups = case
    order, bounds = group_rows(np.array(groups, np.int32), count)
    assert bounds[0] == 0
    assert bounds[-1] == len(groups)
    for group in range(count):
        rows = order[bounds[group] : bounds[group + 1]].tolist()
        assert rows == [row for row, each in enumerate(groups) if each == group]


@pytest.mark.parametrize("groups", [[0, 3], [-1, 0]])
def test_groups_that_are_not_there_are_refused(groups: list[int]) -> None:
    with pytest.raises(ValueError, match="where there are 3"):
        group_rows(np.array(groups, np.int32), 3)


@given(st.lists(st.none() | st.lists(st.tuples(st.text(max_size=5), blobs), max_size=4), max_size=10), st.data())
def test_sizes(headers: list[Any], data: st.DataObject) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    skip = data.draw(st.integers(0, len(rows)))
    counts, sizes = headers_lengths(pa.array(rows, kind)[skip:])
    expected = [row or [] for row in headers[skip:]]
    assert counts.tolist() == [len(row) for row in expected]
    assert sizes.tolist() == [sum(len(key.encode()) + len(value or b"") for key, value in row) for row in expected]
    values = data.draw(st.lists(blobs, max_size=10))
    assert lengths(pa.array(values, pa.binary())).tolist() == [len(value or b"") for value in values]


@given(st.lists(st.tuples(blobs, blobs, st.integers(0, 2**41)), min_size=1, max_size=20), st.data())
def test_encode_in_an_order(rows: list[Any], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=30))
    codec = data.draw(st.sampled_from([Codec.NONE, Codec.LZ4]))
    headers = [[{"key": f"h{at}", "value": b"%d" % at}] if at % 2 else None for at in range(len(rows))]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batches = encode_arrow(
        pa.array([row[0] for row in rows], pa.binary()),
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array([row[2] for row in rows], pa.int64()),
        pa.array(headers, kind) if data.draw(st.booleans()) else None,
        order=np.array(order, np.int64),
        codec=codec,
        max_batch_bytes=300,
    )
    read = [record for batch in batches for record in decode_batch(batch)[1]]
    assert [(record.key, record.value, record.timestamp) for record in read] == [rows[at] for at in order]
    if any(record.headers for record in read):
        assert [bool(record.headers) for record in read] == [bool(at % 2) for at in order]
    if codec == Codec.NONE:
        assert all(len(batch) <= 300 for batch in batches)


def test_an_order_of_rows_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="where there are 2"):
        encode_arrow(None, pa.array([b"a", b"b"]), 0, order=np.array([0, 2], np.int64))


def test_a_large_row_gets_a_batch_of_its_own() -> None:
    values = [b"a", b"x" * 1000, b"b", b"c"]
    batches = encode_arrow(None, pa.array(values), 0, max_batch_bytes=200, max_single_bytes=1200)
    read = [[record.value for record in decode_batch(batch)[1]] for batch in batches]
    assert read == [[b"a"], [b"x" * 1000], [b"b", b"c"]]
    with pytest.raises(RecordTooLargeError, match="row 1 does not fit a batch of 900 bytes"):
        encode_arrow(None, pa.array(values), 0, max_batch_bytes=200, max_single_bytes=900)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
def test_integers_to_numpy_and_back(kind: pa.DataType) -> None:
    column = pa.array([5, -1, 2**31 - 1, 0], kind)
    assert to_numpy(column).tolist() == column.to_pylist()
    assert to_numpy(column.slice(1, 2)).tolist() == [-1, 2**31 - 1]
    assert to_numpy(column.slice(4)).tolist() == []
    assert to_arrow(to_numpy(column)).equals(column)
    assert to_arrow(to_numpy(column)[::2]).to_pylist() == [5, 2**31 - 1]


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=40), st.integers(0, 9), st.integers(0, 9))
def test_nulls_in_integers(values: list[int | None], skip: int, cut: int) -> None:
    column = pa.array(values, pa.int32()).slice(skip, max(len(values) - skip - cut, 0))
    expected = [-5 if value is None else value for value in column.to_pylist()]
    assert to_numpy(column, null=-5).tolist() == expected


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([1.0]), pa.array(["1"])], ids=lambda it: str(it.type))
def test_other_columns_are_no_integers(column: pa.Array) -> None:
    with pytest.raises(ValueError, match="integers without nulls"):
        to_numpy(column)

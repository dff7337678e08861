"""Test batches to Arrow and back, against the reader in plain Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafkalog.records.arrow import arrow_schema, encode_arrow
from kafkalog.records.batch import (
    NO_TIMESTAMP_TYPE_FLAG,
    Record,
    assign_offsets,
    decode_batch,
    encode_batch,
    read_header,
    seal_batch,
    set_log_append_time,
)
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from kafkalog.records.errors import CorruptRecordError, InvalidRecordError, RecordsError, RecordTooLargeError
from tests.kafkalog.records.arrow.support import END, _decode, _values
from tests.kafkalog.records.support import (
    ALL_COLUMNS,
    CODECS,
    blobs,
    column_values,
    expected_columns,
    headers,
    record_lists,
    timestamps,
)


def _log(batches: list[tuple[Codec, list[Record]]]) -> tuple[bytes, int]:
    """The batches one after another, and the offset after them."""
    base = 0
    buf = bytearray()
    for codec, records in batches:
        moved = [record._replace(offset=record.offset + base) for record in records]
        batch = encode_batch(moved, codec=codec, base_offset=base)
        buf += batch
        base = read_header(batch).next_offset
    return bytes(buf), base


pytestmark = pytest.mark.usefixtures("each_build")

logs = st.lists(st.tuples(st.sampled_from(CODECS), record_lists(max_size=5)), min_size=1, max_size=4)


@settings(max_examples=150)
@given(logs, st.sets(st.sampled_from(ALL_COLUMNS), min_size=1), st.data())
def test_decode_equals_the_plain_reader(
    batches: list[tuple[Codec, list[Record]]], columns: set[str], data: st.DataObject
) -> None:
    buf, behind = _log(batches)
    start = data.draw(st.integers(0, behind))
    end = data.draw(st.integers(start, behind + 5))
    names = sorted(columns)
    batch, next_offset = _decode(buf, start, end, names)
    expected = expected_columns(buf, start, end, names, "t", 3)
    if batch is None:
        assert not expected[names[0]]
    else:
        assert batch.schema.equals(arrow_schema(names), check_metadata=True)
        assert column_values(batch) == expected
    assert next_offset == min(end, behind)


@settings(max_examples=100)
@given(logs, st.data())
def test_mutated_bytes_give_the_same_records_or_an_error(
    batches: list[tuple[Codec, list[Record]]], data: st.DataObject
) -> None:
    buf = bytearray(_log(batches)[0])
    for _ in range(data.draw(st.integers(1, 3))):
        buf[data.draw(st.integers(0, len(buf) - 1))] = data.draw(st.integers(0, 255))
    mutated = bytes(buf)
    try:
        expected = expected_columns(mutated, 0, END, ALL_COLUMNS, "t", 3)
    except RecordsError:
        with pytest.raises(RecordsError):
            _decode(mutated, check_crc=False)
        return
    try:
        batch, _ = _decode(mutated, check_crc=False)
    except InvalidRecordError as error:
        # Of one batch alone the plain reader cannot say that offsets go back.
        assert "offsets go back" in str(error)  # noqa: PT017 - either outcome is right
        return
    assert (column_values(batch) or {name: [] for name in ALL_COLUMNS}) == expected


def test_an_unused_attribute_says_nothing_of_timestamps() -> None:
    batch = encode_batch([Record(0, 5, None, b"v", ())])
    header = read_header(batch)
    seal_batch(header._replace(attributes=header.attributes | NO_TIMESTAMP_TYPE_FLAG), batch)
    assert _decode(bytes(batch), columns=["timestampType"])[0].column(0).to_pylist() == [0]
    # It is this process's own word for messages of format v0.
    assert _decode(bytes(batch), columns=["timestampType"], converted=True)[0].column(0).to_pylist() == [-1]


rows = st.lists(st.tuples(blobs, blobs, timestamps, headers), min_size=1, max_size=20)


@settings(max_examples=150)
@given(rows, st.sampled_from(CODECS), st.integers(4000, 20000), st.integers(0, 3))
def test_encode_round_trip(rows: list[Any], codec: Codec, max_batch_bytes: int, skip: int) -> None:
    # Leading rows are sliced off, so that the arrays' own offsets matter.
    assume(len(rows) > skip)
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = [
        pa.array([row[0] for row in rows], pa.binary()),
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array([row[2] for row in rows], pa.int64()),
        pa.array([[{"key": k, "value": v} for k, v in row[3]] or None for row in rows], pairs),
    ]
    batches = encode_arrow(*(column[skip:] for column in columns), codec=codec, max_batch_bytes=max_batch_bytes)
    read = []
    for batch in batches:
        header, records = decode_batch(batch)
        assert header.codec == codec
        assert header.base_offset == 0
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert [record.offset for record in records] == list(range(len(records)))
        if codec == Codec.NONE:
            assert len(batch) <= max_batch_bytes
        read += [(record.key, record.value, record.timestamp, record.headers) for record in records]
    assert read == rows[skip:]


@settings(max_examples=50)
@given(record_lists(), st.sampled_from(CODECS))
def test_encode_equals_the_plain_writer(records: list[Record], codec: Codec) -> None:
    dense = [record._replace(offset=index, headers=()) for index, record in enumerate(records)]
    assume(all(-(2**63) <= record.timestamp - dense[0].timestamp < 2**63 for record in dense))
    (batch,) = encode_arrow(
        pa.array([record.key for record in dense], pa.binary()),
        pa.array([record.value for record in dense], pa.binary()),
        pa.array([record.timestamp for record in dense], pa.int64()),
        codec=codec,
    )
    assert batch == encode_batch(dense, codec=codec)


def test_a_timestamp_too_far_from_the_first_begins_a_batch() -> None:
    times = [2**62, -(2**62) - 5, 7]
    batches = encode_arrow(None, pa.array([b"a", b"b", b"c"]), pa.array(times))
    assert [record.timestamp for batch in batches for record in decode_batch(batch)[1]] == times
    assert len(batches) == 2


@pytest.mark.parametrize(("unit", "value"), [("s", -2), ("ms", -2000), ("us", -1999001), ("ns", -1999000001)])
def test_encode_takes_timestamps_of_any_unit(unit: str, value: int) -> None:
    column = pa.array([value], pa.int64()).cast(pa.timestamp(unit, tz="UTC"))
    (batch,) = encode_arrow(None, pa.chunked_array([pa.array(["text"])]), column)
    assert decode_batch(batch)[1] == [Record(0, -2000, None, b"text")]


def test_encode_numbers_the_batches_of_an_idempotent_producer() -> None:
    batches = encode_arrow(
        None,
        pa.array([b"x" * 100] * 4),
        1234,
        max_batch_bytes=300,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        is_transactional=True,
    )
    read = [read_header(batch) for batch in batches]
    assert [(h.base_sequence, h.records_count) for h in read] == [(2**31 - 2, 2), (0, 2)]
    assert all(h.producer_id == 7 and h.producer_epoch == 2 and h.is_transactional for h in read)
    assert {h.max_timestamp for h in read} == {1234}


def test_encode_refuses_what_a_batch_cannot_say() -> None:
    value = pa.array([b"x" * 100])
    with pytest.raises(RecordTooLargeError, match="row 1"):
        encode_arrow(None, pa.array([b"", b"x" * 1000]), 0, max_batch_bytes=500)
    with pytest.raises(InvalidRecordError, match="timestamp"):
        encode_arrow(None, value, pa.array([None], pa.int64()))
    with pytest.raises(InvalidRecordError, match="key"):
        encode_arrow(None, value, 0, pa.array([[{"key": None, "value": b""}]]))
    with pytest.raises(ValueError, match="rows"):
        encode_arrow(pa.array([b"", b""]), value, 0)


@pytest.mark.parametrize("codec", CODECS)
def test_no_rows_make_no_batches(codec: Codec) -> None:
    assert encode_arrow(None, pa.array([], pa.binary()), 0, codec=codec) == []


def test_log_append_time_is_every_record_s() -> None:
    batch = encode_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")])
    set_log_append_time(batch, 0, 1700000000123)
    decoded, _ = _decode(bytes(batch), columns=["timestamp", "timestampType"])
    assert decoded.column(0).cast(pa.int64()).to_pylist() == [1700000000123000] * 2
    assert decoded.column(1).to_pylist() == [1, 1]


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    first = encode_batch([Record(0, 0, None, b"a")])
    second = encode_batch([Record(1, 0, None, b"b")], base_offset=1)
    for cut in range(1, len(second) + 1):
        assert _values(bytes(first + second[:-cut])) == ([b"a"], 1)
    assert _values(bytes(second[:-1]), start=1) == ([], 1)
    assert _values(b"") == ([], 0)


def _transaction(producer_id: int, offset: int, value: bytes) -> bytearray:
    return encode_batch(
        [Record(offset, 0, None, value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def _marker(kind: ControlRecordType, producer_id: int, offset: int) -> bytearray:
    marker = EndTransactionMarker(kind, 0)
    return marker.encode(timestamp=0, producer_id=producer_id, producer_epoch=0, base_offset=offset)


def test_aborted_transactions_and_markers_are_left_out() -> None:
    buf = bytes(
        _transaction(1, 0, b"aborted")
        + _transaction(2, 1, b"committed")
        + encode_batch([Record(2, 0, None, b"plain")], base_offset=2)
        + _transaction(1, 3, b"aborted too")
        + _marker(ControlRecordType.ABORT, 1, 4)
        + _marker(ControlRecordType.COMMIT, 2, 5)
        + _transaction(1, 6, b"later")
        + _marker(ControlRecordType.COMMIT, 1, 7)
    )
    kept = [b"committed", b"plain", b"later"]
    assert _values(buf, aborted=[(1, 0)]) == (kept, 8)
    assert _values(buf)[0] == [b"aborted", b"committed", b"plain", b"aborted too", b"later"]
    # From within, the marker before still ends the transaction that began before it.
    assert _values(buf, aborted=[(1, 0)], start=5) == ([b"later"], 8)
    # A producer's transactions, both aborted.
    twice = buf[: -len(_marker(ControlRecordType.COMMIT, 1, 7))] + bytes(_marker(ControlRecordType.ABORT, 1, 7))
    assert _values(twice, aborted=[(1, 6), (1, 0)]) == ([b"committed", b"plain"], 8)
    # Only markers and aborted records: nothing, and on.
    assert _values(bytes(_transaction(1, 0, b"x") + _marker(ControlRecordType.ABORT, 1, 1)), aborted=[(1, 0)]) == (
        [],
        2,
    )


def test_a_damaged_marker_of_an_aborted_transaction_is_named() -> None:
    buf = _transaction(1, 0, b"aborted") + _marker(ControlRecordType.ABORT, 1, 1)
    buf[-1] ^= 1
    with pytest.raises(CorruptRecordError, match=r"^t-3 at offset 1: "):
        _values(bytes(buf), aborted=[(1, 0)])


def test_compacted_batches_leave_gaps() -> None:
    emptied = encode_batch([], base_offset=5)
    batch = encode_batch([Record(8, 0, None, b"a"), Record(11, 0, None, b"b")], base_offset=6)
    buf = bytes(emptied + batch)
    assert _values(buf, start=2) == ([b"a", b"b"], 12)
    assert _values(buf, start=2, end=4) == ([], 4)
    assert _values(buf, start=9, end=11) == ([], 11)


def test_a_wrong_checksum_is_named_with_partition_and_offset() -> None:
    buf = bytearray(encode_batch([Record(40, 0, None, b"a")], base_offset=40))
    buf[-2] ^= 1
    with pytest.raises(CorruptRecordError, match=r"t-3 at offset 40: CRC"):
        _decode(bytes(buf))
    batch, _ = _decode(bytes(buf), check_crc=False)
    assert batch.column(1).to_pylist() == [b"`"]
    # Beyond the end nobody asked.
    good = encode_batch([Record(39, 0, None, b"a")], base_offset=39)
    assert _values(bytes(good + buf), start=39, end=40) == ([b"a"], 40)


def test_offsets_that_go_back_are_refused() -> None:
    batch = encode_batch([Record(0, 0, None, b"a")])
    with pytest.raises(InvalidRecordError, match="offsets go back"):
        _decode(bytes(batch + batch))
    assign_offsets(batch, 0, -4, 0)
    with pytest.raises(InvalidRecordError, match="offsets go back"):
        _decode(bytes(batch))


def test_header_keys_that_are_not_utf_8_are_read_as_kafka_s_clients_do() -> None:
    batch = encode_batch([Record(0, 0, None, b"v", (("KEY", b"\xff\xfe"), ("ok", None)))])
    buf = bytes(batch).replace(b"KEY", b"\xc3\x28\xff")
    decoded, _ = _decode(buf, columns=["headers"], check_crc=False)
    decoded.validate(full=True)
    assert decoded.column(0).to_pylist() == [
        [{"key": "\ufffd(\ufffd", "value": b"\xff\xfe"}, {"key": "ok", "value": None}]
    ]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_decode_stops_where_batches_together_expand_too_far(codec: Codec) -> None:
    buf = bytes(b"".join(encode_batch([Record(i, 0, None, bytes(4000))], base_offset=i, codec=codec) for i in range(5)))
    values, next_offset = _values(buf, max_decompressed=9000)
    assert (len(values), next_offset) == (2, 2)
    values, next_offset = _values(buf, max_decompressed=9000, start=next_offset)
    assert (len(values), next_offset) == (2, 4)
    with pytest.raises(RecordTooLargeError):
        _decode(buf, max_decompressed=3000)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_alone_may_expand_further(codec: Codec) -> None:
    sizes = 100, 4000, 100
    buf = bytes(
        b"".join(encode_batch([Record(i, 0, None, bytes(n))], base_offset=i, codec=codec) for i, n in enumerate(sizes))
    )
    bounds = {"max_decompressed": 1000, "max_batch": 5000}
    taken, start = [], 0
    while start < 3:
        values, start = _values(buf, start=start, **bounds)
        taken.append([len(value or b"") for value in values])
    assert taken == [[100], [4000], [100]]
    with pytest.raises(RecordTooLargeError, match="expands to more than 3000 bytes"):
        _decode(buf, start=1, max_decompressed=1000, max_batch=3000)


def test_a_decode_stops_where_int32_offsets_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.records.arrow.decode.OFFSET_MAX", 2500)
    buf = bytes(b"".join(encode_batch([Record(i, 0, None, bytes(1000))], base_offset=i) for i in range(5)))
    seen, start = [], 0
    while start < 5:
        values, after = _values(buf, start=start)
        assert after > start
        seen.append(len(values))
        start = after
    assert seen == [2, 2, 1]


def test_columns_may_be_none_at_all() -> None:
    batch, _ = _decode(bytes(encode_batch([Record(0, 0), Record(1, 0)])), columns=[])
    assert (batch.num_rows, batch.num_columns) == (2, 0)


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(ValueError, match="'colour'"):
        arrow_schema(["value", "colour"])

"""Test that other clients' bytes decode to the records that the clients were given (see make_records)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kafkalog.records.batch import BatchHeader, Record, decode_batch, iter_headers
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.validate import validate_batch

HERE = Path(__file__).parent / "records"
NAMES = sorted(path.stem for path in HERE.glob("*.bin"))
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
EVERY_SEGMENT = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class Golden:
    segment: bytes
    facts: dict[str, Any]
    records: list[Record]
    """The records as sent, in the order of offsets; markers and all else that is not a record are left out."""
    aborted: list[Record]
    markers: dict[int, ControlRecordType]


def _raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@cache
def golden(name: str) -> Golden:
    facts = json.loads((HERE / f"{name}.json").read_text())
    lists = json.loads((HERE / "records.json").read_text())
    records, aborted, markers = [], [], {}
    for part in facts["parts"]:
        for at, told in enumerate(lists[part["records"]]):
            record = Record(
                offset=part["first_offset"] + at,
                timestamp=part.get("timestamp", told["timestamp"]),
                key=_raw(told["key"]),
                value=_raw(told["value"]),
                headers=tuple((key, _raw(value)) for key, value in told["headers"]),
            )
            records.append(record)
            if part.get("ended") == "abort":
                aborted.append(record)
        if "marker" in part:
            markers[part["marker"]] = ControlRecordType[part["ended"].upper()]
    return Golden((HERE / f"{name}.bin").read_bytes(), facts, records, aborted, markers)


def decoded(segment: bytes) -> list[tuple[BatchHeader, list[Record]]]:
    return [decode_batch(segment, pos) for pos, _ in iter_headers(segment)]


def test_the_data_is_complete() -> None:
    """Three clients in five codecs, and the broker's clock."""
    clients = ("java", "librdkafka", "kafka-python")
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assert {f"{client}-{codec}" for client in clients for codec in codecs} | {"java-log-append-time"} == set(NAMES)


@EVERY_SEGMENT
def test_headers(name: str) -> None:
    wanted = golden(name)
    headers = [header for _, header in iter_headers(wanted.segment)]
    assert [header._asdict() for header in headers] == wanted.facts["batches"]
    assert sum(header.size for header in headers) == len(wanted.segment)
    codecs = {header.codec for header in headers if not header.is_control}
    assert codecs == {Codec[wanted.facts["codec"].upper()]}


@EVERY_SEGMENT
def test_decode_batch(name: str) -> None:
    wanted = golden(name)
    batches = decoded(wanted.segment)
    assert [r for header, records in batches if not header.is_control for r in records] == wanted.records
    assert {
        records[0].offset: parse_control_type(records[0].key) for header, records in batches if header.is_control
    } == wanted.markers


@EVERY_SEGMENT
def test_a_leader_would_accept_every_batch_of_a_client(name: str) -> None:
    segment = golden(name).segment
    for pos, header in iter_headers(segment):
        if not header.is_control:
            assert validate_batch(segment, pos) == header


def _rows(records: list[Record], log_append_time: bool) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "t",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": int(log_append_time),
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for record in records
    ]


def _decode_rows(wanted: Golden, **options: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    from kafkalog.records.arrow import decode_arrow

    end = wanted.records[-1].offset + 1
    batch, _ = decode_arrow(
        wanted.segment, topic="t", partition=3, **{"start": 0, "end": end, "columns": COLUMNS, **options}
    )
    assert batch is not None
    at = batch.schema.get_field_index("timestamp")
    return list(batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64())).to_pylist())


@EVERY_SEGMENT
def test_decode_arrow(name: str) -> None:
    wanted = golden(name)
    log_append_time = name == "java-log-append-time"
    assert _decode_rows(wanted) == _rows(wanted.records, log_append_time)


@EVERY_SEGMENT
def test_decode_arrow_of_a_range(name: str) -> None:
    """From the middle of one batch to the middle of another."""
    wanted = golden(name)
    end = wanted.records[-1].offset - 4
    rows = _rows([r for r in wanted.records if 9 <= r.offset < end], name == "java-log-append-time")
    assert _decode_rows(wanted, start=9, end=end) == rows


@pytest.mark.parametrize("name", [name for name in NAMES if golden(name).aborted])
def test_decode_arrow_without_the_aborted(name: str) -> None:
    wanted = golden(name)
    first = wanted.aborted[0].offset
    (producer_id,) = (b["producer_id"] for b in wanted.facts["batches"] if b["base_offset"] == first)
    rows = _rows([r for r in wanted.records if r not in wanted.aborted], False)
    assert _decode_rows(wanted, aborted=[(producer_id, first)]) == rows

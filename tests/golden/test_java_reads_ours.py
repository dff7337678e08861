"""Test that Apache Kafka reads batches that we encode, in a segment file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from peers import require
from peers.brokers import kafka
from peers.toolchains import java

pytestmark = pytest.mark.peer

SOURCE = Path(__file__).parent / "ReadSegment.java"
BASE_TIME = 1_700_000_000_000


def sample(first: int) -> list[Record]:
    """Records with everything that is optional, left out and given; offsets from `first`."""
    shapes: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"no value", None, ()),
        (None, None, ()),
        (b"", b"", ()),
        (b"headers", b"v", (("one", b"1"), ("none", None), ("empty", b""), ("", b"no name"))),
        (b"duplicates", b"v", (("same", b"1"), ("same", b"2"), ("same", b"1"))),
        (bytes(range(256)), bytes(range(255, -1, -1)), (("ünïcode-頭", b"\xff"),)),
        (b"long", b"compressible " * 5_000, ()),
        *((b"%d" % i, b"value number %d" % i, ()) for i in range(300)),
    ]
    return [
        Record(first + at, BASE_TIME + (at * 7919) % 1000 - 500, key, value, headers)
        for at, (key, value, headers) in enumerate(shapes)
    ]


def batches(codec: Codec) -> list[tuple[dict[str, Any], list[Record], bytearray]]:
    """(header facts, records, bytes) of a plain, an idempotent, a transactional and a LogAppendTime batch."""
    made = []
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"producer_id": 77, "producer_epoch": 3, "base_sequence": 2**31 - 5},
        {"producer_id": 2**40, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True},
        {"log_append_time": True},
    )
    for number, options in enumerate(kinds):
        records = sample(1000 * number)
        raw = encode_batch(records, codec=codec, base_offset=1000 * number, leader_epoch=5, **options)
        facts = {
            "codec": codec.name.lower(),
            "leader_epoch": 5,
            "log_append_time": options.get("log_append_time", False),
            "producer_id": options.get("producer_id", -1),
            "producer_epoch": options.get("producer_epoch", -1),
            "base_sequence": options.get("base_sequence", -1),
            "transactional": options.get("is_transactional", False),
        }
        made.append((facts, records, raw))
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Codec, Path]:
    """One segment file a codec."""
    require(kafka.missing())
    paths = {}
    for codec in Codec:
        directory = tmp_path_factory.mktemp(f"t-{codec.name}")
        paths[codec] = directory / f"{0:020d}.log"
        marker = EndTransactionMarker(ControlRecordType.COMMIT, 9).encode(
            timestamp=BASE_TIME, producer_id=2**40, producer_epoch=0, base_offset=9000, leader_epoch=5
        )
        paths[codec].write_bytes(b"".join(raw for _, _, raw in batches(codec)) + marker)
    return paths


@pytest.fixture(scope="module")
def read(files: dict[Codec, Path]) -> dict[Codec, list[dict[str, Any]]]:
    """Return the batches that Kafka's FileRecords found in each file."""
    out = java.run_java(kafka.kafka_classpath(kafka.KAFKA_4), str(SOURCE), [str(f) for f in files.values()])
    return {codec: json.loads(line)["batches"] for codec, line in zip(files, out.splitlines(), strict=True)}


@pytest.mark.parametrize("codec", list(Codec))
def test_kafka_reads_the_same_records(read: dict[Codec, list[dict[str, Any]]], codec: Codec) -> None:
    for found, (facts, records, _) in zip(read[codec], batches(codec), strict=False):
        assert {name: found[name] for name in facts} == facts
        assert found["base_offset"] == records[0].offset
        assert found["last_offset"] == records[-1].offset
        newest = max(record.timestamp for record in records)
        assert found["max_timestamp"] == newest
        times = [newest if facts["log_append_time"] else record.timestamp for record in records]
        assert [
            (r["offset"], r["timestamp"], _raw(r["key"]), _raw(r["value"]), _headers(r)) for r in found["records"]
        ] == [(r.offset, time, r.key, r.value, r.headers) for r, time in zip(records, times, strict=True)]


@pytest.mark.parametrize("codec", list(Codec))
def test_kafka_knows_the_marker(read: dict[Codec, list[dict[str, Any]]], codec: Codec) -> None:
    assert len(read[codec]) == 5
    marker = read[codec][-1]
    assert (marker["control"], marker["transactional"], marker["base_offset"]) == (True, True, 9000)
    # version 0, type 1 (COMMIT); version 0, coordinator epoch 9
    assert (marker["records"][0]["key"], marker["records"][0]["value"]) == ("00000001", "000000000009")


def test_dump_log_segments_finds_nothing_wrong(files: dict[Codec, Path]) -> None:
    names = ",".join(str(file) for file in files.values())
    args = ["--files", names, "--deep-iteration", "--print-data-log"]
    out = kafka.run_java_tool("org.apache.kafka.tools.DumpLogSegments", args)
    assert out.count("isvalid: true") == 5 * len(files)
    assert "isvalid: false" not in out
    assert out.count("endTxnMarker: COMMIT coordinatorEpoch: 9") == len(files)
    assert out.count("payload: value number 299") == 4 * len(files)


def _raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _headers(record: dict[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _raw(value)) for name, value in record["headers"])

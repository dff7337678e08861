"""Test that we read message sets v0 and v1 of Apache Kafka's classes, and that these read ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkalog.records.any_format import decode_any, iter_any_headers, timestamp_type, verify_any_crc
from kafkalog.records.batch import Record
from kafkalog.records.compression import LZ4_MAGIC, Codec
from kafkalog.records.legacy.message_set import encode_message_set
from peers import require
from peers.brokers import kafka
from peers.toolchains import java
from tests.golden.make_message_sets import HERE, SOURCE

BASE_TIME = 1_700_000_000_000
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
EVERY = pytest.mark.parametrize(("magic", "codec"), [(magic, codec) for magic in (0, 1) for codec in CODECS])
SETS = ((100, 104, None), (105, 109, None), (110, 110, BASE_TIME + 5000))


def record(offset: int, magic: int, append_time: int | None) -> Record:
    time = BASE_TIME + offset * 7 % 10 if append_time is None else append_time
    return Record(
        offset,
        time if magic else -1,
        None if offset % 3 == 0 else b"key%d" % offset,
        None if offset % 5 == 4 else b"value %d " % offset * 20,
    )


def records(magic: int) -> list[list[Record]]:
    return [[record(n, magic, time) for n in range(first, last + 1)] for first, last, time in SETS]


def data(magic: int, codec: Codec) -> bytes:
    return (HERE / f"java-v{magic}-{codec.name.lower()}.bin").read_bytes()


@EVERY
def test_we_read_java(magic: int, codec: Codec) -> None:
    buf = data(magic, codec)
    found: list[Record] = []
    end = 0
    for pos, header in iter_any_headers(buf):
        verify_any_crc(buf, pos, header)
        assert (header.magic, header.codec) == (magic, codec)
        found += decode_any(buf, pos)[1]
        is_last = header.last_offset == 110
        assert timestamp_type(header) == (int(is_last) if magic else -1)
        end = pos + header.size
    assert end == len(buf)
    assert found == [each for part in records(magic) for each in part]


@EVERY
def test_ours_are_the_same_but_for_what_codecs_choose(magic: int, codec: Codec) -> None:
    ours = b"".join(
        encode_message_set(part, magic=magic, codec=codec, log_append_time=time)
        for part, (_, _, time) in zip(records(magic), SETS, strict=True)
    )
    theirs = data(magic, codec)
    if codec is Codec.NONE:
        assert ours == theirs
    headers = [[header for _, header in iter_any_headers(buf)] for buf in (ours, theirs)]
    same = [[header._replace(batch_length=0, crc=0) for header in part] for part in headers]
    assert same[0] == same[1]
    if codec is Codec.LZ4:
        # Magic number, flags, and the header's checksum, which is the wrong one in v0 (KAFKA-3160).
        heads = [buf[buf.index(LZ4_MAGIC) : buf.index(LZ4_MAGIC) + 7] for buf in (ours, theirs)]
        assert heads[0] == heads[1]


def unhexed(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.peer
def test_java_reads_ours(tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    written: list[tuple[Path, int, Codec]] = []
    for magic in (0, 1):
        for codec in CODECS:
            path = tmp_path / f"{magic}-{codec.name}.log"
            path.write_bytes(
                b"".join(
                    encode_message_set(part, magic=magic, codec=codec, log_append_time=time)
                    for part, (_, _, time) in zip(records(magic), SETS, strict=True)
                )
            )
            written.append((path, magic, codec))
    words = ["read", *(str(path) for path, _, _ in written)]
    out = java.run_java(kafka.kafka_classpath(kafka.KAFKA_3), str(SOURCE), words).splitlines()
    for (_, magic, codec), line in zip(written, out, strict=True):
        batches: list[dict[str, Any]] = json.loads(line)["batches"]
        assert {(each["magic"], each["codec"]) for each in batches} == {(magic, codec.name.lower())}
        assert batches[-1]["timestamp_type"] == (1 if magic else -1)
        found = [
            Record(offset, time, unhexed(key), unhexed(value))
            for each in batches
            for offset, time, key, value in each["records"]
        ]
        assert found == [each for part in records(magic) for each in part]

"""Tests of message formats v0 and v1, alone and mixed with v2: from a broker, and from its log directory."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.types import TopicPartition
from kafkalog.records.batch import Record, encode_batch, iter_headers
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.convert import Upgraded, upgraded
from kafkalog.records.legacy.message_set import encode_message_set
from spark_kafkalog.executor import batch_pieces
from spark_kafkalog.executor.batch_pieces import cut_pieces, joined, modern
from spark_kafkalog.offline import piece_reader
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from tests.broker.api.message_formats import alter, sent, topic_of
from tests.broker.log.support import temporary_directory
from tests.spark_kafkalog.offline.written import T0_MS, offsets, rows
from tests.spark_kafkalog.without_spark import Batch, chosen
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import produce

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType")
RELEASES = ("0.9.0", "0.10.0", "2.8")


def stored(base: int, count: int, magic: int, codec: Codec, append_time: bool = False) -> bytes:
    records = [Record(n, T0_MS + n, b"k%d" % n, b"%010d" % n) for n in range(base, base + count)]
    if magic == 2:
        return bytes(encode_batch(records, codec=codec, base_offset=base, log_append_time=append_time))
    time = T0_MS + 5000 if append_time else None
    return bytes(encode_message_set(records, magic=magic, codec=codec, log_append_time=time))


def write_log(directory: Path, data: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{0:020d}.log"
    path.write_bytes(data)
    return path


def seen(found: list[dict[str, Any]]) -> list[tuple[int, bytes | None, int, int]]:
    """(offset, value, timestamp in ms, timestampType) of rows."""
    return [
        (row["offset"], row["value"], round(row["timestamp"].timestamp() * 1000), row["timestampType"]) for row in found
    ]


# ------------------------------------------------------------------------------------------------ log directories


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_segment_of_an_older_format(tmp_path: Path, magic: int, codec: Codec) -> None:
    write_log(tmp_path / "t-0", b"".join(stored(base, 5, magic, codec) for base in range(0, 50, 5)))
    found = rows(tmp_path, chosen(*COLUMNS))
    assert seen(found) == [(n, b"%010d" % n, T0_MS + n if magic else -1, 0 if magic else -1) for n in range(50)]
    assert [row["key"] for row in found] == [b"k%d" % n for n in range(50)]
    assert offsets(tmp_path, startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":23}}') == list(range(7, 23))


def test_log_append_time(tmp_path: Path) -> None:
    kinds_of = ((1, Codec.NONE), (1, Codec.GZIP), (0, Codec.GZIP), (2, Codec.NONE))
    data = [stored(5 * at, 5, magic, codec, True) for at, (magic, codec) in enumerate(kinds_of)]
    write_log(tmp_path / "t-0", b"".join(data))
    kinds = [(T0_MS + 5000, 1)] * 10 + [(-1, -1)] * 5 + [(T0_MS + 19, 1)] * 5
    assert [row[2:] for row in seen(rows(tmp_path, chosen(*COLUMNS)))] == kinds


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(CODECS), st.integers(1, 6)), min_size=1, max_size=12
    ),
    st.integers(40, 400),
)
def test_a_mixed_log(parts: list[tuple[int, Codec, int]], read_bytes: int) -> None:
    data, wanted, base = b"", [], 0
    for magic, codec, count in parts:
        data += stored(base, count, magic, codec)
        wanted += [(n, b"%010d" % n, T0_MS + n if magic else -1, 0 if magic else -1) for n in range(base, base + count)]
        base += count
    with temporary_directory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece_reader, "READ_BYTES", read_bytes)
        write_log(directory / "t-0", data)
        assert seen(rows(directory, chosen(*COLUMNS))) == wanted
        assert offsets(directory) == list(range(base))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_damage(tmp_path: Path, magic: int, codec: Codec) -> None:
    parts = [stored(base, 1, magic, codec) for base in range(10)]
    whole = b"".join(parts)
    path = write_log(tmp_path / "t-0", whole)
    for cut_off in (1, 10, len(parts[-1]) - 1):
        path.write_bytes(whole[:-cut_off])
        assert offsets(tmp_path) == list(range(9))
    damaged = bytearray(whole)
    damaged[sum(map(len, parts[:4])) + 30] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptLogError):
        offsets(tmp_path)
    assert offsets(tmp_path, failOnDataLoss=False) == [n for n in range(10) if n != 4]
    # A length that is damaged: sound ones behind are found by their looks.
    damaged[sum(map(len, parts[:4])) + 8] ^= 0x80
    path.write_bytes(damaged)
    assert offsets(tmp_path, failOnDataLoss=False) == [n for n in range(10) if n != 4]


def test_zeros_behind_the_last_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_log(tmp_path / "t-0", stored(0, 5, 0, Codec.NONE) + bytes(5000))
    assert offsets(tmp_path) == list(range(5))
    assert not caplog.messages


def test_timestamps_are_looked_up(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"".join(stored(base, 5, 1, Codec.GZIP) for base in range(0, 20, 5)))
    assert offsets(tmp_path, startingTimestamp=T0_MS + 7) == list(range(7, 20))


# ------------------------------------------------------------------------------------------------ from a broker


def test_pieces_of_a_chunk_are_batches_of_v2() -> None:
    parts = [stored(0, 3, 2, Codec.NONE), stored(3, 3, 0, Codec.NONE), stored(6, 3, 1, Codec.GZIP)]
    parts += [stored(9, 3, 2, Codec.GZIP), stored(12, 2, 1, Codec.NONE)]
    chunk = memoryview(b"".join(parts))
    for end in range(len(chunk) + 1):
        pieces = cut_pieces(chunk[:end], 0)
        parts_of_v2 = [part for piece in pieces for part in modern(piece)]
        found = [header.next_offset for part in parts_of_v2 for _, header in iter_headers(part.records)]
        assert [part.behind for part in parts_of_v2] == [piece.behind for piece in pieces]
        assert [piece.behind for piece in pieces] == sorted({piece.behind for piece in pieces})
        assert found == sorted(found)
        whole = sum(1 for at in range(1, len(parts) + 1) if sum(map(len, parts[:at])) <= end)
        least = (0, 3, 6, 9, 12, 14)[whole]
        assert (pieces[-1].behind if pieces else 0) >= least
    pieces = cut_pieces(chunk, 0)
    assert [(piece.behind, piece.is_old) for piece in pieces] == [(3, False), (9, True), (12, False), (14, True)]
    made = [part for piece in pieces for part in modern(piece)]
    assert [(part.behind, part.converted) for part in made] == [(3, False), (9, True), (12, False), (14, True)]
    together = joined(pieces)
    assert (together.behind, together.converted) == (14, True)
    assert bytes(together.records) == b"".join(part.records for part in made)
    assert not joined(pieces[:1]).converted


def test_old_messages_of_a_chunk_are_converted_when_their_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper of a few kilobytes can expand as far as a batch."""
    monkeypatch.setattr(batch_pieces, "PIECE_BYTES", 1000)
    zeros = [
        bytes(encode_message_set([Record(at, T0_MS, None, bytes(1000))], magic=1, codec=Codec.GZIP)) for at in range(5)
    ]
    made: list[int] = []

    def told(*args: Any, **options: Any) -> Iterator[Upgraded]:
        for each in upgraded(*args, **options):
            made.append(each.behind)
            yield each

    monkeypatch.setattr(batch_pieces, "upgraded", told)
    (piece,) = cut_pieces(memoryview(b"".join(zeros)), 0)
    assert (piece.behind, made) == (5, [])
    for at, part in enumerate(modern(piece)):
        assert part.behind == at + 1
        assert len(made) <= at + 2
    assert made == [1, 2, 3, 4, 5]


@pytest.fixture
def wire(broker: KafkalogBroker) -> Any:
    with broker.connect() as sock:
        yield sock


@pytest.mark.parametrize("codec", CODECS)
def test_topics_of_every_format(broker_address: str, wire: socket.socket, codec: Codec) -> None:
    topic = topic_of(wire)
    wanted = []
    for at in range(9):
        alter(wire, topic, message_format_version=RELEASES[at % 3])
        values = [b"%d-%d" % (at, n) for n in range(4)]
        version = (0, 2, 9)[at // 3]
        assert produce(wire, topic, sent(values, version, codec), version=version).error_code == 0
        for n, value in enumerate(values):
            kind = -1 if at % 3 == 0 else 0
            stamp = 1_700_000_000_000 + n if kind == 0 and version else -1
            wanted.append((4 * at + n, value, stamp, kind))
    assert seen(Batch(broker_address).rows(subscribe=topic)) == wanted
    some = Batch(broker_address).rows(
        subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":6}}}}', endingOffsets=f'{{"{topic}":{{"0":31}}}}'
    )
    assert seen(some) == wanted[6:31]
    config = ClientConfig.from_dict({"bootstrap.servers": broker_address, "auto.offset.reset": "earliest"})
    with SimpleConsumer(config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[Any] = []
        while len(found) < 36:
            found += consumer.poll(10.0)
        assert [(each.offset, each.value, each.timestamp, each.timestamp_type) for each in found] == wanted
        consumer.seek(TopicPartition(topic, 0), 6)
        assert consumer.poll(10.0)[0].offset == 6

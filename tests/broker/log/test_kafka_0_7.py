"""Tests of partition directories of Kafka 0.7: written, rolled, read from any offset, recovered, imported."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from broker.log import kafka_0_7
from broker.log.kafka_0_7 import (
    BrokenLogError,
    OldLog,
    dump_lines,
    partition_directories,
    partition_of,
    segment_name,
)
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.kafka_0_7 import encode_message, iter_shallow
from tests.broker.log.support import FaultyOps, temporary_directory

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)


def filled(directory: Path, count: int = 60, **options: Any) -> tuple[OldLog, list[bytes]]:
    log = OldLog.open(directory, writable=True, segment_bytes=300, **options)
    wanted: list[bytes] = []
    for at in range(count // 3):
        values = [b"%03d-%d" % (at, n) for n in range(3)]
        end = log.end
        assert log.append(values, codec=CODECS[at % 3]) == end
        wanted += values
    log.close()
    return log, wanted


def read(log: OldLog, offset: int | None = None) -> list[bytes]:
    return [message.payload for message in log.messages(offset)]


def test_files_are_named_by_the_bytes_before_them(tmp_path: Path) -> None:
    log, wanted = filled(tmp_path / "my_topic-0")
    files = sorted((tmp_path / "my_topic-0").iterdir())
    base = 0
    for file in files:
        assert file.name == f"{base:020d}.kafka"
        base += file.stat().st_size
    assert len(files) > 3
    assert (log.start, log.end) == (0, base)
    # One is rolled once it has more than it should, so that no message is divided.
    assert all(300 < file.stat().st_size < 450 for file in files[:-1])
    assert read(OldLog.open(tmp_path / "my_topic-0")) == wanted


def test_names_of_other_widths_are_read(tmp_path: Path) -> None:
    """The design paper's names have 11 digits."""
    (tmp_path / "my_topic_0").mkdir()
    data = encode_message(b"a")
    (tmp_path / "my_topic_0" / "00000000000.kafka").write_bytes(data)
    (tmp_path / "my_topic_0" / f"{len(data):011d}.kafka").write_bytes(encode_message(b"b"))
    assert read(OldLog.open(tmp_path / "my_topic_0")) == [b"a", b"b"]


def test_reading_from_every_offset(tmp_path: Path) -> None:
    log, wanted = filled(tmp_path / "t-0")
    messages = list(log.messages())
    for at, message in enumerate(messages):
        first = next(n for n, other in enumerate(messages) if other.offset == message.offset)
        assert read(log, message.offset) == wanted[first:]
        behind = [n for n, other in enumerate(messages) if other.offset >= message.next_offset]
        assert read(log, message.next_offset) == (wanted[behind[0] :] if behind else [])
        assert at >= first
    assert read(log, log.end) == []
    for offset in (-1, log.end + 1):
        with pytest.raises(ValueError, match="not within"):
            list(log.messages(offset))
    with pytest.raises(BrokenLogError):
        list(log.messages(1))


def test_it_is_appended_to_again(tmp_path: Path) -> None:
    _, wanted = filled(tmp_path / "t-0")
    again = OldLog.open(tmp_path / "t-0", writable=True, segment_bytes=300)
    end = again.end
    assert again.append([b"more"]) == end
    again.close()
    assert read(OldLog.open(tmp_path / "t-0")) == [*wanted, b"more"]
    assert read(OldLog.open(tmp_path / "t-0"), end) == [b"more"]


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_torn_or_damaged_end_is_cut_off(cut: int, flip: int) -> None:
    with temporary_directory() as directory:
        log, wanted = filled(directory / "t-0", 30)
        last = log.segments[-1]
        whole = last.path.read_bytes()
        at = cut % len(whole)
        # The attributes are not under the checksum.
        assume(flip == 0 or at not in [message.position + 5 for message in iter_shallow(whole)])
        damaged = whole[:at] if flip == 0 else whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]
        last.path.write_bytes(damaged)
        seen = read(OldLog.open(directory / "t-0"))
        assert wanted[: len(seen)] == seen
        assert last.path.read_bytes() == damaged, "who only reads changes nothing"
        again = OldLog.open(directory / "t-0", writable=True, segment_bytes=1 << 20)
        assert last.path.stat().st_size == again.segments[-1].size <= at
        again.append([b"on"])
        again.close()
        assert read(OldLog.open(directory / "t-0")) == [*seen, b"on"]


def test_an_append_that_failed_leaves_nothing(tmp_path: Path) -> None:
    ops = FaultyOps(errno.ENOSPC)
    log = OldLog.open(tmp_path / "t-0", writable=True, ops=ops)
    log.append([b"a"])
    ops.fail["pwrite"] = 1
    with pytest.raises(OSError, match="injected"):
        log.append([b"b" * 10, b"c" * 10, b"d" * 10])
    ops.heal()
    log.close()
    assert read(OldLog.open(tmp_path / "t-0")) == [b"a"]


def test_a_missing_segment_is_an_error(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    log.segments[1].path.unlink()
    with pytest.raises(BrokenLogError, match=log.segments[2].path.name):
        OldLog.open(tmp_path / "t-0")


def test_older_segments_may_be_gone(tmp_path: Path) -> None:
    log, wanted = filled(tmp_path / "t-0")
    log.segments[0].path.unlink()
    again = OldLog.open(tmp_path / "t-0")
    assert again.start == log.segments[1].base
    assert wanted[-len(read(again)) :] == read(again)


def test_damage_before_the_end_is_told_of(tmp_path: Path) -> None:
    log, _ = filled(tmp_path / "t-0")
    path = log.segments[1].path
    data = bytearray(path.read_bytes())
    data[12] ^= 1
    path.write_bytes(data)
    with pytest.raises(BrokenLogError, match=rf"{path.name} is damaged at position 0"):
        read(OldLog.open(tmp_path / "t-0"))


def test_messages_larger_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_0_7, "READ_BYTES", 64)
    values = [bytes([n]) * size for n, size in enumerate((1, 500, 30, 64, 2000, 5))]
    log = OldLog.open(tmp_path / "t-0", writable=True)
    for value in values:
        log.append([value])
    log.append(values, codec=Codec.GZIP)
    log.close()
    assert read(OldLog.open(tmp_path / "t-0")) == values * 2


def test_directories(tmp_path: Path) -> None:
    for name in ("words-0", "words_1", "a-b-12"):
        filled(tmp_path / name, 3)
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "words-0" / "other").write_text("")
    assert [path.name for path in partition_directories(tmp_path)] == ["a-b-12", "words-0", "words_1"]
    assert partition_directories(tmp_path / "words-0") == [tmp_path / "words-0"]
    assert [partition_of(Path(name)) for name in ("words-0", "my_topic_1", "a-b-12", "plain")] == [
        ("words", 0),
        ("my_topic", 1),
        ("a-b", 12),
        None,
    ]


def test_dump(tmp_path: Path) -> None:
    log = OldLog.open(tmp_path / "t-0", writable=True)
    log.append([b"one"])
    log.append([b"two", b"three"], codec=Codec.GZIP)
    log.close()
    path = tmp_path / "t-0" / segment_name(0)
    lines = list(dump_lines(path, payloads=True))
    assert lines[0] == "Starting offset: 0"
    assert lines[1] == "offset: 0 position: 0 size: 13 magic: 1 compresscodec: none crc: 2053932785 isvalid: true"
    assert [line.rpartition("payload: ")[2] for line in lines if line.startswith("|")] == ["one", "two", "three"]
    path.write_bytes(path.read_bytes() + b"\0\0")
    assert list(dump_lines(path))[-1] == f"Found 2 invalid bytes at the end of {path.name}"

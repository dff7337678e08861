"""Tests of a log with message formats v0 and v1, or all formats: validated, stored, looked up, recovered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.append import log_appender
from broker.log.append.legacy.message_sets import PreparedSet, prepare_set
from broker.log.append.validation import Origin
from broker.log.log import Log
from broker.log.log_config import LOG_APPEND_TIME, LogConfig
from kafkalog.protocol import errors
from kafkalog.records.any_format import decode_any, iter_any_headers
from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch, read_header, records_section
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Codec, compress
from kafkalog.records.legacy.message_set import append_entry, encode_message_set, iter_entries
from kafkalog.storage import names
from tests.broker.log.by_time import found_by_time, found_latest
from tests.broker.log.support import NOW, append_any, batch, temporary_directory

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
FORMATS = (0, 1, 2)


def sent(values: Sequence[bytes], magic: int, codec: Codec = Codec.NONE, *, key: bytes | None = b"k") -> memoryview:
    """Return the records as a producer of that format sends them: offsets count from 0."""
    records = [Record(at, NOW + at, key, value) for at, value in enumerate(values)]
    if magic == 2:
        return memoryview(encode_batch(records, codec=codec))
    return memoryview(encode_message_set(records, magic=magic, codec=codec))


def open_log(directory: Path, settings: LogConfig, *, name: str = "t-0", clean: bool = False) -> Log:
    return Log.open(directory / name, settings, clean=clean, now_ms=NOW)


def config(magic: int, **fields: Any) -> LogConfig:
    return LogConfig(message_format=magic, **fields)


def stored(log: Log, start: int = 0, step: int = 400) -> list[tuple[int, Record]]:
    """(magic, record) of everything from `start` on, read in small steps."""
    found: dict[int, tuple[int, Record]] = {}
    offset = start
    while offset < log.log_end_offset:
        data = log.read(offset, step).read()
        before = offset
        for pos, header in iter_any_headers(data):
            for record in decode_any(data, pos)[1]:
                if record.offset >= start:
                    found[record.offset] = header.magic, record
            offset = header.next_offset
        assert offset > before, f"nothing at {offset} of {log}"
    return list(found.values())


def seen(value: bytes, offset: int, magic: int, timestamp: int, key: bytes | None = b"k") -> tuple[int, Record]:
    return magic, Record(offset, timestamp if magic else -1, key, value)


# ------------------------------------------------------------------------------------------------ what is stored


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("codec", CODECS)
def test_whatever_is_sent_is_stored_in_the_topics_format(
    tmp_path: Path, source: int, target: int, codec: Codec
) -> None:
    log = open_log(tmp_path, config(target))
    values = [b"a", b"b" * 300, b""]
    for at in range(3):
        info = append_any(log, sent(values, source, codec), leader_epoch=4, now_ms=NOW)
        assert (info.first_offset, info.last_offset) == (3 * at, 3 * at + 2)
        has_time = bool(source and target)
        assert (info.max_timestamp, info.log_append_time) == (NOW + 2 if has_time else -1, -1)
    time = source != 0
    assert stored(log) == [seen(values[at % 3], at, target, NOW + at % 3 if time else -1) for at in range(9)]
    data = log.read(0, 1 << 20).read()
    assert {header.codec for _, header in iter_any_headers(data)} == {codec}
    rewritten = source != target or (target == 0 and codec)
    assert log.produce_message_conversions == (9 if rewritten else 0)


def test_what_needs_no_conversion_is_stored_as_it_came(tmp_path: Path) -> None:
    """But for the offset, which is not under the checksum."""
    for number, (magic, codec) in enumerate([(0, Codec.NONE), (1, Codec.NONE), (1, Codec.LZ4), (1, Codec.GZIP)]):
        log = open_log(tmp_path, config(magic), name=f"t-{number}")
        data = sent([b"a", b"b"], magic, codec)
        came = bytes(data)
        append_any(log, data, leader_epoch=0, now_ms=NOW)
        assert log.read(0, 1 << 20).read() == bytes(data)
        positions = [pos for pos, _ in iter_entries(came)]
        for pos in positions:
            end = pos + 12
            assert bytes(data)[pos + 8 : end] == came[pos + 8 : end]


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time(tmp_path: Path, target: int, codec: Codec) -> None:
    log = open_log(tmp_path, config(target, message_timestamp_type=LOG_APPEND_TIME))
    for source in FORMATS:
        info = append_any(log, sent([b"a", b"b"], source, codec), leader_epoch=0, now_ms=NOW + 1000)
        assert info.log_append_time == NOW + 1000
        assert info.max_timestamp == (NOW + 1000 if target else -1)
    data = log.read(0, 1 << 20).read()
    for pos, header in iter_any_headers(data):
        assert header.is_log_append_time == bool(target)
        assert {record.timestamp for record in decode_any(data, pos)[1]} == {NOW + 1000 if target else -1}
    assert [record.value for _, record in stored(log)] == [b"a", b"b"] * 3


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_answered_as_it_is_stored(tmp_path: Path, codec: Codec) -> None:
    """A worker may have checked the set, and stamped it, some time before it is appended."""
    settings = config(1, message_timestamp_type=LOG_APPEND_TIME)
    log = open_log(tmp_path, settings)
    prepared = prepare_set(sent([b"a", b"b"], 1, codec), settings, NOW, Origin.CLIENT, "t-0")
    info = log.append_legacy(prepared, leader_epoch=0, now_ms=NOW + 7)
    assert {record.timestamp for _, record in stored(log)} == {info.log_append_time} == {info.max_timestamp}


@pytest.mark.parametrize("target", FORMATS)
def test_the_topics_codec(tmp_path: Path, target: int) -> None:
    log = open_log(tmp_path, config(target, compression_type="gzip"))
    for source in FORMATS:
        for codec in (*CODECS, Codec.ZSTD) if source == 2 else CODECS:
            append_any(log, sent([b"a", b"b"], source, codec), leader_epoch=0, now_ms=NOW)
    data = log.read(0, 1 << 20).read()
    assert {(header.magic, header.codec) for _, header in iter_any_headers(data)} == {(target, Codec.GZIP)}
    assert len(stored(log)) == 2 * (4 + 4 + 5)


@pytest.mark.parametrize("level", [1, 9])
def test_the_level_of_the_topics_codec(tmp_path: Path, level: int) -> None:
    log = open_log(tmp_path, config(2, compression_type="gzip", compression_level=level))
    values = [b"%d" % (at * at) for at in range(500)]
    append_any(log, sent(values, 1, Codec.SNAPPY), leader_epoch=0, now_ms=NOW)
    data = log.read(0, 1 << 20).read()
    body, start, end = records_section(data, 0, read_header(data), DEFAULT_MAX_SIZE)
    assert data[HEADER_SIZE:] == compress(Codec.GZIP, bytes(body[start:end]), level)


def test_offsets_within_that_do_not_count_from_0_are_written_anew(tmp_path: Path) -> None:
    """Some producers leave relative offsets out, or the wrapper's."""
    log = open_log(tmp_path, config(1))
    inner = b"".join(bytes(encode_message_set([Record(0, NOW, None, b"%d" % at)], magic=1)) for at in range(3))
    append_any(log, wrapper(memoryview(inner)), leader_epoch=0, now_ms=NOW)
    append_any(log, sent([b"x"], 1), leader_epoch=0, now_ms=NOW)
    assert [(record.offset, record.value) for _, record in stored(log)] == [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"x")]


def test_an_incomplete_message_at_the_end_is_left_out(tmp_path: Path) -> None:
    log = open_log(tmp_path, config(1))
    whole = sent([b"a", b"b"], 1)
    assert append_any(log, whole[:-1], leader_epoch=0, now_ms=NOW).last_offset == 0
    before = log.size
    info = append_any(log, sent([b"c"], 1)[:-1], leader_epoch=0, now_ms=NOW)
    assert (info.first_offset, log.log_end_offset, log.size) == (-1, 1, before)


def test_a_prepared_set_is_appended_where_the_log_ends(tmp_path: Path) -> None:
    """A worker prepares it while others append."""
    for number, (target, codec) in enumerate([(0, Codec.NONE), (0, Codec.GZIP), (1, Codec.GZIP), (2, Codec.GZIP)]):
        log = open_log(tmp_path, config(target), name=f"t-{number}")
        prepared = prepare_set(sent([b"a", b"b"], 1, codec), log.config, NOW, Origin.CLIENT, "t-0")
        assert isinstance(prepared, PreparedSet)
        append_any(log, sent([b"first"], target), leader_epoch=0, now_ms=NOW)
        assert log.append_legacy(prepared, leader_epoch=0, now_ms=NOW).first_offset == 1
        assert [(record.offset, record.value) for _, record in stored(log)] == [(0, b"first"), (1, b"a"), (2, b"b")]


@pytest.mark.parametrize("codec", CODECS)
def test_a_converted_batch_is_not_checked_again_by_the_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    """The check decompresses it, which a worker has done and the event loop must not do."""
    log = open_log(tmp_path, config(2))
    prepared = prepare_set(sent([b"a", b"b"], 1, codec), log.config, NOW, Origin.CLIENT, "t-0")
    monkeypatch.setattr(log_appender, "prepare", lambda *args, **options: pytest.fail("it is checked again"))
    assert log.append_legacy(prepared, leader_epoch=0, now_ms=NOW).last_offset == 1
    assert [record.value for _, record in stored(log)] == [b"a", b"b"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_was_checked_for_other_settings_is_checked_again(tmp_path: Path, codec: Codec) -> None:
    created, appended = config(2), config(2, message_timestamp_type=LOG_APPEND_TIME)
    gzip, small = config(2, compression_type="gzip"), config(2, max_message_bytes=70)
    log = open_log(tmp_path, created)

    def append(before: LogConfig, after: LogConfig) -> None:
        log.config = before
        prepared = prepare_set(sent([b"a" * 40, b"b" * 40], 1, codec), before, NOW, Origin.CLIENT, "t-0")
        log.config = after
        log.append_legacy(prepared, leader_epoch=0, now_ms=NOW + 7)

    append(appended, created)
    append(created, appended)
    append(created, gzip)
    append(appended, config(1))
    with pytest.raises(errors.MessageTooLargeError):
        append(created, small)
    headers = [header for _, header in iter_any_headers(log.read(0, 1 << 20).read())]
    times = [(header.is_log_append_time, header.max_timestamp) for header in headers[:3]]
    assert times == [(False, NOW + 1), (True, NOW + 7), (False, NOW + 1)]
    assert headers[2].codec is Codec.GZIP
    assert {(header.magic, header.is_log_append_time) for header in headers[3:]} == {(1, False)}
    assert [record.value for _, record in stored(log)] == [b"a" * 40, b"b" * 40] * 4


# ------------------------------------------------------------------------------------------------ what is refused

V0, V1, V2 = (config(magic) for magic in FORMATS)


def damaged(data: memoryview) -> memoryview:
    changed = bytearray(data)
    changed[-1] ^= 1
    return memoryview(changed)


def wrapper(inner: memoryview) -> memoryview:
    out = bytearray()
    append_entry(out, 1, Codec.GZIP, 0, NOW, None, compress(Codec.GZIP, inner))
    return memoryview(out)


def dependent_blocks(magic: int) -> memoryview:
    """Return a set in an lz4 frame as Kafka's consumers cannot read it."""
    out = bytearray()
    frame = lz4.frame.compress(sent([b"a" * 100_000], magic), block_linked=True)
    append_entry(out, magic, Codec.LZ4, 0, NOW, None, frame)
    return memoryview(out)


REFUSED: dict[str, tuple[memoryview, LogConfig, type[errors.KafkaError]]] = {
    "crc": (damaged(sent([b"a"], 1)), V1, errors.CorruptMessageError),
    "crc of the second": (damaged(sent([b"a", b"b"], 0)), V1, errors.CorruptMessageError),
    "crc within": (wrapper(damaged(sent([b"a"], 1))), V1, errors.CorruptMessageError),
    "dependent blocks": (dependent_blocks(1), V1, errors.InvalidRecordError),
    "dependent blocks, for v2": (dependent_blocks(1), V2, errors.InvalidRecordError),
    "two wrappers": (
        memoryview(bytearray(bytes(sent([b"a"], 1, Codec.GZIP)) * 2)), V1, errors.InvalidRecordError,
    ),
    "two formats": (
        memoryview(bytearray(bytes(sent([b"a"], 1)) + bytes(sent([b"a"], 0)))), V1, errors.InvalidRecordError,
    ),
    "too large": (sent([b"a" * 200], 1), config(1, max_message_bytes=150), errors.MessageTooLargeError),
    "too large once converted": (
        sent([b"%d" % at for at in range(100)], 0), config(2, max_message_bytes=500), errors.MessageTooLargeError,
    ),
    "too large for a segment": (sent([b"a" * 200], 0), config(0, segment_bytes=150), errors.RecordListTooLargeError),
    "a set too large for a segment": (
        sent([b"a" * 100] * 2, 0), config(0, segment_bytes=200), errors.RecordListTooLargeError,
    ),
    "no key": (sent([b"a"], 1, key=None), config(1, cleanup_policy=("compact",)), errors.InvalidRecordError),
    "no key, and the policy is not known": (
        sent([b"a"], 1, key=None), config(1, is_policy_known=False), errors.InvalidRecordError,
    ),
    "no key, for v2, and the policy is not known": (
        sent([b"a"], 1, key=None), config(2, is_policy_known=False), errors.InvalidRecordError,
    ),
    "no key, for v2": (sent([b"a"], 1, key=None), config(2, cleanup_policy=("compact",)), errors.InvalidRecordError),
    "too old": (
        sent([b"a"], 1), config(1, message_timestamp_before_max_ms=10), errors.InvalidTimestampError,
    ),
    "append time": (
        memoryview(encode_message_set([Record(0, 0, None, b"v")], magic=1, log_append_time=5)), V1,
        errors.InvalidTimestampError,
    ),
    "append time of a batch": (
        memoryview(encode_batch([Record(0, -1, None, b"v")], log_append_time=True)), V1, errors.InvalidTimestampError,
    ),
    "zstd, as no producer of these formats can": (
        memoryview(encode_batch([Record(0, NOW, None, b"v")], codec=Codec.ZSTD)), V1,
        errors.UnsupportedCompressionTypeError,
    ),
    "zstd for the topic": (sent([b"a"], 2), config(1, compression_type="zstd"), errors.UnsupportedCompressionTypeError),
    "headers": (
        memoryview(encode_batch([Record(0, NOW, None, b"v", (("h", b"1"),))])), V1,
        errors.UnsupportedForMessageFormatError,
    ),
    "idempotent": (
        memoryview(encode_batch([Record(0, NOW)], producer_id=1, producer_epoch=0, base_sequence=0)), V0,
        errors.UnsupportedForMessageFormatError,
    ),
    "transactional": (
        memoryview(
            encode_batch([Record(0, NOW)], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        ), V1, errors.UnsupportedForMessageFormatError,
    ),
    "half a batch": (sent([b"a"], 2)[:-1], V1, errors.CorruptMessageError),
    "a few bytes of v2": (sent([b"a"], 2)[:40], V1, errors.InvalidRecordError),
    "two batches": (memoryview(bytearray(bytes(sent([b"a"], 2)) * 2)), V1, errors.InvalidRecordError),
    "a batch with an offset": (batch(1, base_offset=5), V1, errors.InvalidRecordError),
    "a size that cannot be": (
        memoryview(bytearray(bytes(8) + (5).to_bytes(4, "big") + bytes(40))), V2, errors.CorruptMessageError,
    ),
}  # fmt: skip


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    data, settings, expected = REFUSED[case]
    log = open_log(tmp_path, settings)
    with pytest.raises(expected):
        append_any(log, data, leader_epoch=0, now_ms=NOW + 100)
    assert (log.log_end_offset, log.size, log.produce_message_conversions) == (0, 0, 0)


def test_a_compressed_set_of_v0_that_has_become_too_large_is_refused(tmp_path: Path) -> None:
    """Its size is known once its offsets are."""
    log = open_log(tmp_path, config(0, compression_type="gzip", max_message_bytes=2000))
    values = [os.urandom(100) for _ in range(30)]
    with pytest.raises(errors.MessageTooLargeError):
        append_any(log, sent(values, 0), leader_epoch=0, now_ms=NOW)
    assert (log.log_end_offset, log.size) == (0, 0)


# ------------------------------------------------------------------------------------------------ finding, recovering


def mixed(directory: Path, **fields: Any) -> Log:
    """A log whose topic's format was changed again and again."""
    log = open_log(directory, LogConfig(segment_bytes=1500, index_interval_bytes=200, **fields))
    for at in range(24):
        log.config = log.config.with_changes(message_format=(0, 1, 2, 1)[at // 3 % 4])
        values = [b"%03d-%d" % (at, n) * 4 for n in range(4)]
        append_any(log, sent(values, log.config.message_format, CODECS[at % 4]), leader_epoch=1, now_ms=NOW + at)
    return log


def test_one_log_of_all_formats(tmp_path: Path) -> None:
    log = mixed(tmp_path)
    rows = stored(log)
    assert [record.offset for _, record in rows] == list(range(96))
    assert {magic for magic, _ in rows} == {0, 1, 2}
    assert [record.value for _, record in rows] == [b"%03d-%d" % (at, n) * 4 for at in range(24) for n in range(4)]
    for start in range(96):
        assert stored(log, start) == rows[start:]
    assert len(log.segments) > 2


@pytest.mark.parametrize("clean", [True, False])
def test_it_opens_again(tmp_path: Path, clean: bool) -> None:
    log = mixed(tmp_path)
    rows, size = stored(log), log.size
    log.close()
    if not clean:
        for path in (tmp_path / "t-0").glob("*.*index"):
            path.unlink()
    again = open_log(tmp_path, log.config, clean=clean)
    assert (again.log_end_offset, again.size) == (96, size)
    assert stored(again) == rows
    info = append_any(again, sent([b"on"], 0), leader_epoch=2, now_ms=NOW)
    assert (info.first_offset, stored(again, 96)[0][1].value) == (96, b"on")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_torn_end_is_cut_off(tmp_path: Path, magic: int, codec: Codec) -> None:
    log = open_log(tmp_path, config(magic))
    for at in range(5):
        append_any(log, sent([b"%d" % at], magic, codec), leader_epoch=0, now_ms=NOW)
    log.flush()
    path = tmp_path / "t-0" / names.segment_name(0, names.LOG)
    whole = path.read_bytes()
    last = [pos for pos, _ in iter_any_headers(whole)][-1]
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        again = open_log(tmp_path, config(magic))
        assert (again.log_end_offset, again.size) == (4, last)
    for at in range(last + 8, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        again = open_log(tmp_path, config(magic))
        assert (again.log_end_offset, again.size) == (4, last), at


def test_the_least_message_at_the_end(tmp_path: Path) -> None:
    """26 bytes, shorter than what a look-up reads of a batch."""
    log = open_log(tmp_path, config(0, index_interval_bytes=0))
    for _ in range(200):
        record = encode_message_set([Record(0, 0)], magic=0)
        assert len(record) == 26
        append_any(log, memoryview(record), leader_epoch=0, now_ms=NOW)
    log.close()
    again = open_log(tmp_path, config(0), clean=True)
    assert again.log_end_offset == 200
    for offset in (0, 1, 57, 198, 199):
        data = again.read(offset, 26).read()
        assert [header.base_offset for _, header in iter_any_headers(data)] == [offset]
    assert again.segments[-1].position_of(200) is None


def test_timestamps_are_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, config(1, index_interval_bytes=100))
    for at, codec in enumerate(CODECS * 3):
        records = [Record(n, NOW + 100 * at + 10 * n, None, b"v" * 20) for n in range(5)]
        data = memoryview(encode_message_set(records, magic=1, codec=codec))
        append_any(log, data, leader_epoch=0, now_ms=NOW)
    for at in range(12):
        for n in range(5):
            time = NOW + 100 * at + 10 * n
            for asked in (time, time - 9):
                assert found_by_time(log, asked) == (time, 5 * at + n, -1)
    assert found_by_time(log, NOW + 1141) is None
    assert found_latest(log) == (NOW + 1140, 59, -1)
    old = open_log(tmp_path, config(0), name="t-1")
    append_any(old, sent([b"a"], 1), leader_epoch=0, now_ms=NOW)
    assert found_by_time(old, 0) is None
    assert found_latest(old) is None


def test_a_mixed_log_is_truncated_and_grows_again(tmp_path: Path) -> None:
    log = mixed(tmp_path)
    rows = stored(log)
    for offset in (70, 41, 13, 3):
        log.truncate_to(offset, now_ms=NOW)
        # The batch that holds the offset goes whole.
        assert offset - 4 < log.log_end_offset <= offset
        assert stored(log) == rows[: log.log_end_offset]
    assert append_any(log, sent([b"a"], 1), leader_epoch=0, now_ms=NOW).first_offset == log.log_end_offset - 1


def test_a_follower_keeps_the_bytes_of_the_leader(tmp_path: Path) -> None:
    leader = mixed(tmp_path)
    follower = open_log(tmp_path, LogConfig(segment_bytes=1500, index_interval_bytes=200), name="t-1")
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read(follower.log_end_offset, 700).read()
        follower.append_as_follower(memoryview(bytearray(data)), now_ms=NOW)
    assert stored(follower) == stored(leader)
    joined = [b"".join(p.read_bytes() for p in sorted((tmp_path / name).glob("*.log"))) for name in ("t-0", "t-1")]
    assert joined[0] == joined[1]
    for segment in follower.segments:
        first = next(
            iter_any_headers((tmp_path / "t-1" / names.segment_name(segment.base_offset, names.LOG)).read_bytes())
        )
        assert first[1].last_offset >= segment.base_offset


def test_leader_epochs_are_forgotten_where_messages_have_none(tmp_path: Path) -> None:
    """As Kafka does: followers go by the high watermark then."""
    log = open_log(tmp_path, config(2))
    log.assign_epoch(3)
    append_any(log, batch(2), leader_epoch=3, now_ms=NOW)
    assert log.latest_epoch == 3
    log.config = config(1)
    append_any(log, sent([b"a"], 1), leader_epoch=3, now_ms=NOW)
    assert (log.latest_epoch, log.end_offset_for_epoch(3)) == (-1, (-1, -1))
    log.assign_epoch(4)
    assert log.latest_epoch == -1
    log.config = config(2)
    append_any(log, batch(2), leader_epoch=4, now_ms=NOW)
    assert log.end_offset_for_epoch(4) == (4, 5)


@given(
    st.lists(
        st.tuples(st.sampled_from(FORMATS), st.sampled_from(FORMATS), st.sampled_from(CODECS), st.integers(1, 5)),
        max_size=8,
    ),
    st.booleans(),
)
def test_any_sequence_of_formats_is_read_back(steps: list[tuple[int, int, Codec, int]], clean: bool) -> None:
    with temporary_directory() as directory:
        log = open_log(directory, LogConfig(segment_bytes=600, index_interval_bytes=0))
        wanted: list[bytes | None] = []
        for target, source, codec, count in steps:
            log.config = log.config.with_changes(message_format=target)
            values = [b"%d" % (len(wanted) + n) for n in range(count)]
            append_any(log, sent(values, source, codec), leader_epoch=0, now_ms=NOW)
            wanted += values
        assert [record.value for _, record in stored(log)] == wanted
        log.close()
        again = open_log(directory, log.config, clean=clean)
        assert [record.value for _, record in stored(again)] == wanted


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize(("magic", "codec"), [(1, Codec.NONE), (1, Codec.GZIP), (2, Codec.NONE)])
def test_which_of_several_wrong_records_decides(magic: int, codec: Codec) -> None:
    """Each message of a set that is not compressed is a batch of its own, so there the first decides."""
    settings = config(1, cleanup_policy=("compact",), message_timestamp_before_max_ms=1000)
    records = [Record(0, NOW, None, b"v"), Record(1, NOW - 2000, b"k", b"v")]
    data = encode_batch(records) if magic == 2 else encode_message_set(records, magic=magic, codec=codec)
    first_decides = magic == 1 and codec is Codec.NONE
    with pytest.raises(errors.InvalidRecordError if first_decides else errors.InvalidTimestampError):
        prepare_set(memoryview(data), settings, NOW, Origin.CLIENT, "t-0")

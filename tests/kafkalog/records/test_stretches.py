"""Tests of cutting chunks into stretches of whole batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records import stretches
from kafkalog.records.any_format import iter_any_headers
from kafkalog.records.batch import LOG_OVERHEAD, MAGIC, MAGIC_AT, Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import CorruptRecordError, RecordsError, UnsupportedMagicError
from kafkalog.records.legacy.message_set import encode_message_set
from kafkalog.records.stretches import Stretch

CODECS = (Codec.NONE, Codec.GZIP)
PARTS = st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(CODECS), st.integers(1, 6)), max_size=12)


def stored(base: int, count: int, magic: int, codec: Codec) -> bytes:
    records = [Record(n, 0, None, b"%010d" % n) for n in range(base, base + count)]
    if magic == MAGIC:
        return bytes(encode_batch(records, codec=codec, base_offset=base))
    return bytes(encode_message_set(records, magic=magic, codec=codec))


def log(parts: list[tuple[int, Codec, int]]) -> bytes:
    data, base = b"", 0
    for magic, codec, count in parts:
        data += stored(base, count, magic, codec)
        base += count
    return data


def cut(
    chunk: bytes, max_records: int = 1 << 16, max_bytes: int = 1 << 20, max_old_bytes: int = 1 << 20
) -> list[Stretch]:
    return stretches.cut(memoryview(chunk), max_records=max_records, max_bytes=max_bytes, max_old_bytes=max_old_bytes)


@given(PARTS, st.integers(0, 100), st.integers(1, 12), st.integers(1, 500), st.integers(1, 300))
def test_stretches_are_all_whole_batches(
    parts: list[tuple[int, Codec, int]], missing: int, max_records: int, max_bytes: int, max_old_bytes: int
) -> None:
    data = log(parts)
    chunk = data[: max(len(data) - missing, 0)]
    whole = list(iter_any_headers(chunk))
    found = cut(chunk, max_records, max_bytes, max_old_bytes)
    assert [each.begin for each in found] == [0, *(each.end for each in found)][: len(found)]
    assert (found[-1].end if found else 0) == sum(header.size for _, header in whole)
    for each in found:
        within = [header for at, header in whole if each.begin <= at < each.end]
        assert each.behind == within[-1].next_offset
        assert {header.magic < MAGIC for header in within} == {each.is_old}
        most = max_old_bytes if each.is_old else max_bytes
        assert len(within) == 1 or each.end - each.begin <= most
        assert len(within) == 1 or each.is_old or sum(header.records_count for header in within) <= max_records
    stretches.refuse_damage(memoryview(chunk), found[-1].end if found else 0)


def test_stretches_are_as_long_as_their_bounds_allow() -> None:
    batches = [stored(at, 2, MAGIC, Codec.NONE) for at in range(0, 12, 2)]
    size = len(batches[0])
    chunk = b"".join(batches)
    assert [each.behind for each in cut(chunk)] == [12]
    assert [each.behind for each in cut(chunk, max_records=5)] == [4, 8, 12]
    assert [each.behind for each in cut(chunk, max_bytes=3 * size)] == [6, 12]
    messages = b"".join(stored(at, 1, 1, Codec.NONE) for at in range(6))
    assert [each.behind for each in cut(messages, max_records=1)] == [6], "records bound batches of v2 alone"
    assert [each.behind for each in cut(messages, max_old_bytes=len(messages) // 2)] == [3, 6]


@pytest.mark.parametrize("before", [b"", stored(0, 2, MAGIC, Codec.NONE), stored(0, 2, 1, Codec.NONE)])
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13])
def test_an_impossible_length_ends_the_walk_and_is_refused(before: bytes, magic: int, length: int) -> None:
    damaged = bytearray(stored(2, 2, magic, Codec.NONE))
    damaged[8:LOG_OVERHEAD] = length.to_bytes(4, "big", signed=True)
    chunk = before + damaged
    found = cut(chunk)
    assert sum(each.end - each.begin for each in found) == len(before)
    with pytest.raises(CorruptRecordError):
        stretches.refuse_damage(memoryview(chunk), len(before))


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_format_ends_the_walk_and_is_refused(magic: int) -> None:
    before, damaged = stored(0, 2, MAGIC, Codec.NONE), bytearray(stored(2, 2, MAGIC, Codec.NONE))
    damaged[MAGIC_AT] = magic
    chunk = before + damaged
    assert cut(chunk) == [Stretch(0, len(before), 2)]
    with pytest.raises(UnsupportedMagicError):
        stretches.refuse_damage(memoryview(chunk), len(before))


@given(PARTS, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4))
def test_hostile_bytes(parts: list[tuple[int, Codec, int]], changes: list[tuple[int, int]]) -> None:
    chunk = bytearray(log(parts))
    for at, byte in changes:
        if at < len(chunk):
            chunk[at] = byte
    found = cut(bytes(chunk), 5, 300, 200)
    at = 0
    for each in found:
        assert each.begin == at < each.end
        at = each.end
    assert at <= len(chunk)
    try:
        stretches.refuse_damage(memoryview(chunk), at)
    except RecordsError:
        return
    assert cut(bytes(chunk[at:])) == [], "nothing but the beginning of a batch"

"""Test compaction over bytes: the compiled loops against the plain ones, and both against a model of Kafka's rules."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.records import cleaning
from kafkalog.records.batch import (
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    decode_batch,
    encode_batch,
    iter_headers,
    pack_header,
    read_header,
    seal_batch,
)
from kafkalog.records.compression import Codec, compress
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.records.kernels.plain import log_cleaning as plain
from kafkalog.records.varint import append_varint
from tests.support.sources.checked_kernels import cleaning_functions

NOW = 1_700_000_000_000
RETENTION = 86_400_000
SECRET = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


@pytest.fixture(scope="module", params=["compiled", "checked"])
def compiled(request: pytest.FixtureRequest) -> cleaning.Functions:
    """The compiled kernels, and again those that refuse to touch memory that they were not given."""
    functions = cleaning_functions() if request.param == "checked" else cleaning.load()
    assert functions.compiled
    return functions


# The first, second, ninth, sixteenth and last of the vectors that SipHash's authors publish: bytes 0, 1, 2... of
# rising length, under the key 00 01 ... 0f.
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    63: "5150d1772f50834a503e069a973fbd7c",
}


@pytest.mark.parametrize("length", VECTORS)
def test_keys_are_hashed_with_siphash(length: int) -> None:
    words = plain.hash_bytes(bytes(range(length)), *SECRET)
    assert b"".join(word.to_bytes(8, "little", signed=True) for word in words).hex() == VECTORS[length]


class Batch(NamedTuple):
    """The choices of which a batch is made."""

    keys: Sequence[bytes | None]
    tombstones: Sequence[bool]
    times: Sequence[int]
    gaps: Sequence[int]
    codec: Codec
    producer_id: int
    log_append_time: bool
    horizon: int | None


KEYS = st.one_of(
    st.none(), st.sampled_from([b"a", b"b", b"key-long-enough-for-words", b"x" * 200]), st.binary(max_size=20)
)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    size = draw(st.integers(1, 8))

    def several(each: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(each, min_size=size, max_size=size))

    return Batch(
        several(KEYS),  # type: ignore[arg-type]
        several(st.booleans()),  # type: ignore[arg-type]
        several(st.integers(-1, 1 << 41)),  # type: ignore[arg-type]
        several(st.integers(0, 200)),  # type: ignore[arg-type]
        draw(st.sampled_from(Codec)),
        draw(st.integers(-1, 2)),
        draw(st.booleans()),
        draw(st.sampled_from([None, None, NOW - 1, NOW, NOW + 1])),
    )


def encode(batch: Batch, base: int) -> bytearray:
    records = []
    offset = base
    for key, tombstone, time, gap in zip(batch.keys, batch.tombstones, batch.times, batch.gaps, strict=True):
        offset += gap % 3
        records.append(
            Record(offset, time, key, None if tombstone else b"v" * gap, (("h", b"x"),) if gap % 5 == 0 else ())
        )
        offset += 1
    data = encode_batch(
        records, codec=batch.codec, base_offset=base, leader_epoch=3, producer_id=batch.producer_id,
        producer_epoch=0 if batch.producer_id >= 0 else -1, base_sequence=5 if batch.producer_id >= 0 else -1,
        log_append_time=batch.log_append_time,
    )  # fmt: skip
    if batch.horizon is not None:
        data = with_horizon(data, batch.horizon)
    return data


def with_horizon(data: bytearray, horizon: int) -> bytearray:
    """The batch as a cleaning leaves it that gives it this horizon."""
    header = read_header(data)
    only = cleaning.OffsetMap(2400, 0.9, most_keys=10, functions=cleaning.PLAIN)
    filter_ = new_filter(only, {}, now_ms=horizon, retention=0)
    written = filter_.filter_batch(data, 0, header, keep_all=True, set_horizon=True)
    assert written is not None
    return bytearray(written.data)


def new_filter(
    offsets: cleaning.OffsetMap,
    last: dict[int, int],
    *,
    now_ms: int = NOW,
    retention: int = RETENTION,
    out: int = 1 << 16,
) -> cleaning.BatchFilter:
    made = cleaning.BatchFilter(
        offsets, now_ms=now_ms, delete_retention_ms=retention, last_offsets=last, index_interval=100, out_size=out
    )
    made.begin(0, 0, -1, 0)
    return made


def clean(
    log: bytes,
    functions: cleaning.Functions,
    *,
    start: int,
    last: dict[int, int],
    out: int = 1 << 16,
    memory: int = 1 << 16,
) -> tuple[bytes, list[object]]:
    """Clean the log; return the bytes that remain, and everything that the cleaning counted."""
    offsets = cleaning.OffsetMap(memory, 0.9, most_keys=1000, start_offset=start, functions=functions, secret=SECRET)
    offsets.latest_offset = start - 1
    pos, full = 0, False
    while not full and pos < len(log):
        status, pos = offsets.index(log, pos, len(log))
        full = status == cleaning.FULL
        if status == cleaning.SPECIAL:
            header = read_header(log, pos)
            if offsets.index_batch(log, pos, header):
                if header.last_offset >= start:
                    offsets.latest_offset = header.last_offset
                pos += header.size
            else:
                full = True
    filter_ = new_filter(offsets, last, out=out)
    result = bytearray()
    rows: list[object] = []
    pos = 0
    while pos < len(log):
        status, pos = filter_.filter(log, pos, len(log))
        if status == cleaning.FULL and not filter_.used:
            filter_.grow(log, pos)
        result += filter_.out[: filter_.used]
        rows += filter_.index_state()[0]
        filter_.begin(len(result), *filter_.index_state()[1:])
        if status == cleaning.SPECIAL:
            header = read_header(log, pos)
            keep = header.has_producer_id and last.get(header.producer_id) == header.last_offset
            written = filter_.filter_batch(log, pos, header, keep_header=keep)
            if written:
                # As a segment takes it into account.
                at = len(result), len(written.data), written.header.last_offset, written.header.max_timestamp
                plain._note(filter_.state, filter_._rows, *at)
                result += written.data
            pos += header.size
            rows += filter_.index_state()[0]
            filter_.begin(len(result), *filter_.index_state()[1:])
    rows.append(filter_.index_state()[1:])
    counts = [filter_.records_read, filter_.records_kept, filter_.records_without_key]
    return bytes(result), [rows, counts, offsets.entries, offsets.latest_offset, offsets.indexed_records]


def build(parts: Sequence[Batch]) -> tuple[bytes, dict[int, int]]:
    log = bytearray()
    last: dict[int, int] = {}
    base = 0
    for part in parts:
        data = encode(part, base)
        header = read_header(data)
        base = header.next_offset
        if part.producer_id >= 0:
            last[part.producer_id] = header.last_offset
        log += data
    return bytes(log), last


@settings(max_examples=150)
@given(st.lists(batches(), min_size=1, max_size=8), st.integers(0, 40), st.sampled_from([200, 1 << 16]), st.booleans())
def test_compiled_and_plain_do_the_same(
    compiled: cleaning.Functions, parts: list[Batch], start: int, out: int, small: bool
) -> None:
    log, last = build(parts)
    memory = 24 * 12 if small else 1 << 16
    ours = clean(log, compiled, start=start, last=last, out=out, memory=memory)
    assert ours == clean(log, cleaning.PLAIN, start=start, last=last, out=out, memory=memory)


def stays(header: BatchHeader, record: Record, latest: dict[bytes, int], mapped: int) -> bool:
    """Kafka's rule."""
    if record.offset > mapped:
        return True
    if record.key is None or record.offset < latest.get(record.key, -1):
        return False
    horizon = header.delete_horizon
    return record.value is not None or horizon is None or horizon > NOW


@settings(max_examples=150)
@given(st.lists(batches(), min_size=1, max_size=8), st.integers(0, 40))
def test_what_stays(compiled: cleaning.Functions, parts: list[Batch], start: int) -> None:
    log, last = build(parts)
    cleaned, _ = clean(log, compiled, start=start, last=last)
    latest: dict[bytes, int] = {}
    before = [(pos, *decode_batch(log, pos)) for pos, _ in iter_headers(log)]
    end = max(before[-1][1].last_offset, start - 1)
    for _, _, records in before:
        latest.update({r.key: r.offset for r in records if r.key is not None and r.offset >= start})
    after = {header.base_offset: (pos, header) for pos, header in iter_headers(cleaned)}
    for pos, header, records in before:
        kept = [record for record in records if stays(header, record, latest, end)]
        is_last = header.producer_id >= 0 and last[header.producer_id] == header.last_offset
        if not kept and not is_last:
            assert header.base_offset not in after
            continue
        at, new = after.pop(header.base_offset)
        _, found = decode_batch(cleaned, at)
        assert found == kept
        unchanged = (
            "base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence",
            "partition_leader_epoch", "magic",
        )  # fmt: skip
        assert {name: getattr(new, name) for name in unchanged} == {name: getattr(header, name) for name in unchanged}
        fresh = any(record.value is None for record in kept) and not header.has_delete_horizon
        if len(kept) == len(records) and not fresh:
            assert cleaned[at : at + new.size] == log[pos : pos + header.size]
        elif kept:
            assert new.codec == header.codec
            assert new.is_log_append_time == header.is_log_append_time
            assert new.max_timestamp == max(record.timestamp for record in kept)
            assert new.delete_horizon == (NOW + RETENTION if fresh else header.delete_horizon)
        else:
            assert (new.size, new.codec, new.base_timestamp) == (HEADER_SIZE, Codec.NONE, -1)
            assert new.max_timestamp == header.max_timestamp
            assert not new.attributes & DELETE_HORIZON_FLAG
    assert not after


def keyed(*keys: bytes | None, base: int = 0, value: bytes | None = b"v", codec: Codec = Codec.NONE) -> bytes:
    return bytes(
        encode_batch([Record(base + i, NOW, key, value) for i, key in enumerate(keys)], base_offset=base, codec=codec)
    )


def test_cleaning_again_changes_nothing(compiled: cleaning.Functions) -> None:
    log = keyed(b"a", b"b", b"a") + keyed(b"b", None, base=3) + keyed(b"c", base=5, value=None)
    once, _ = clean(log, compiled, start=0, last={})
    assert clean(once, compiled, start=0, last={})[0] == once


@pytest.mark.parametrize("functions", ["compiled", "plain"])
def test_a_full_map_ends_before_the_batch_that_does_not_fit(functions: str, compiled: cleaning.Functions) -> None:
    chosen = compiled if functions == "compiled" else cleaning.PLAIN
    log = keyed(b"a", b"b") + keyed(b"a", b"c", b"d", base=2)
    # Four slots, of which three are used.
    offsets = cleaning.OffsetMap(24 * 4, 0.9, most_keys=100, functions=chosen)
    assert offsets.index(log, 0, len(log)) == (cleaning.FULL, len(keyed(b"a", b"b")))
    assert (offsets.latest_offset, offsets.entries) == (1, 3)
    assert [offsets.get(key) for key in (b"a", b"b", b"c", b"d", b"e")] == [2, 1, 3, -1, -1]


def test_a_map_needs_room_for_a_key() -> None:
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        cleaning.OffsetMap(24, 0.9, most_keys=100, functions=cleaning.PLAIN)


@pytest.mark.parametrize("functions", ["compiled", "plain"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_damage_is_told_and_never_given_a_right_checksum(
    functions: str, codec: Codec, compiled: cleaning.Functions
) -> None:
    chosen = compiled if functions == "compiled" else cleaning.PLAIN
    log = bytearray(keyed(b"a", b"b", codec=codec))
    log[-2] ^= 1
    offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=100, functions=chosen)
    status, pos = offsets.index(log, 0, len(log))
    assert (status, pos) == (cleaning.SPECIAL, 0)
    with pytest.raises(CorruptRecordError):
        offsets.index_batch(log, 0, read_header(log))
    filter_ = new_filter(offsets, {})
    assert filter_.filter(log, 0, len(log)) == (cleaning.SPECIAL, 0)
    with pytest.raises(CorruptRecordError):
        filter_.filter_batch(log, 0, read_header(log))


def many(count: int, *, base: int = 0, codec: Codec, size: int = 40, keys: int = 50) -> bytes:
    """A batch of that many records, which compress little."""
    random = Random(base)
    records = [
        Record(base + i, NOW, b"key-%d" % random.randrange(keys), random.randbytes(size // 2) + bytes(size // 2))
        for i in range(count)
    ]
    return bytes(encode_batch(records, base_offset=base, codec=codec))


@pytest.mark.parametrize("codec", list(Codec))
def test_large_batches(codec: Codec, compiled: cleaning.Functions) -> None:
    """Of more than one lz4 block, more records than wait for their cells at once, and larger than the room is first."""
    log = b"".join(
        many(count, base=base, codec=codec, size=size)
        for base, count, size in ((0, 900, 100), (900, 70, 30_000), (970, 70, 30_000), (1040, 65, 20), (1105, 1, 9))
    )
    ours = clean(log, compiled, start=0, last={}, out=1 << 18)
    assert ours == clean(log, cleaning.PLAIN, start=0, last={}, out=1 << 18)
    kept = [record for pos, _ in iter_headers(ours[0]) for record in decode_batch(ours[0], pos)[1]]
    assert len({record.key for record in kept}) == len(kept) == 50


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_kernels_do_common_batches_in_one_call(codec: Codec, compiled: cleaning.Functions) -> None:
    log = b"".join(many(20, base=base, codec=codec) for base in range(0, 200, 20))
    offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=1000, functions=compiled)
    assert offsets.index(log, 0, len(log)) == (cleaning.DONE, len(log))
    filter_ = new_filter(offsets, {})
    assert filter_.filter(log, 0, len(log)) == (cleaning.DONE, len(log))
    assert (filter_.records_read, filter_.records_kept) == (200, offsets.entries)


def test_keys_of_snappy_batches_are_taken_in_one_call(compiled: cleaning.Functions) -> None:
    log = b"".join(many(20, base=base, codec=Codec.SNAPPY) for base in range(0, 200, 20))
    offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=1000, functions=compiled)
    assert offsets.index(log, 0, len(log)) == (cleaning.DONE, len(log))
    assert offsets.indexed_records == 200


def test_batches_larger_than_the_room_make_it_larger(compiled: cleaning.Functions) -> None:
    """The first one is Python's; the next ones are the kernel's."""
    log = b"".join(many(60, base=base, codec=Codec.LZ4, size=30_000) for base in (0, 60, 120))
    offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=1000, functions=compiled)
    assert offsets.index(log, 0, len(log)) == (cleaning.SPECIAL, 0)
    header = read_header(log)
    assert offsets.index_batch(log, 0, header)
    assert offsets.index(log, header.size, len(log)) == (cleaning.DONE, len(log))


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.SNAPPY])
def test_damaged_compression_under_a_right_checksum_is_told(codec: Codec, compiled: cleaning.Functions) -> None:
    good = many(20, codec=codec)
    header = read_header(good)
    for at in range(HEADER_SIZE, len(good), 7):
        section = bytearray(good[HEADER_SIZE:])
        section[at - HEADER_SIZE] ^= 0xFF
        log = bytes(pack_header(header, section))
        results: list[object] = []
        for functions in (compiled, cleaning.PLAIN):
            try:
                results.append(clean(log, functions, start=0, last={}))
            except RecordsError as error:
                results.append(type(error))
        assert results[0] == results[1]


@pytest.mark.parametrize("functions", ["compiled", "plain"])
def test_an_incomplete_batch_is_waited_for(functions: str, compiled: cleaning.Functions) -> None:
    chosen = compiled if functions == "compiled" else cleaning.PLAIN
    first = keyed(b"a")
    log = first + keyed(b"b", base=1)[:-1]
    offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=100, functions=chosen)
    assert offsets.index(log, 0, len(log)) == (cleaning.DONE, len(first))
    assert new_filter(offsets, {}).filter(log, 0, len(log)) == (cleaning.DONE, len(first))


def test_an_endless_retention_keeps_tombstones(compiled: cleaning.Functions) -> None:
    log = keyed(b"a", value=None)
    offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=100, functions=compiled)
    offsets.index(log, 0, len(log))
    filter_ = new_filter(offsets, {}, retention=(1 << 63) - 1)
    filter_.filter(log, 0, len(log))
    header, records = decode_batch(filter_.out[: filter_.used])
    assert header.delete_horizon == 1 << 62
    assert records[0].timestamp == NOW


def test_the_largest_time_of_what_is_kept_wraps_around_as_64_bits_do(compiled: cleaning.Functions) -> None:
    data = encode_batch([Record(0, 0, b"k", b"1"), Record(1, 1, b"l", b"2"), Record(2, 1, b"k", b"3")])
    data = seal_batch(read_header(data)._replace(base_timestamp=(1 << 63) - 1), data)
    written = []
    for functions in (cleaning.PLAIN, compiled):
        offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=10, functions=functions)
        offsets.index(data, 0, len(data))
        filter_ = new_filter(offsets, {})
        filter_.filter(data, 0, len(data))
        written.append(bytes(filter_.out[: filter_.used]))
    plainly, fast = written
    assert plainly == fast
    header = read_header(plainly)
    assert (header.records_count, header.max_timestamp) == (2, NO_TIMESTAMP)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_times_wrap_around_as_64_bits_do(compiled: cleaning.Functions, codec: Codec) -> None:
    """A tombstone's time of -1 may be the least base and the largest delta. Its horizon is too far for a delta."""
    body = bytearray(1)
    for number in ((1 << 63) - 1, 0, 1):
        append_varint(body, number)
    body += b"k"
    append_varint(body, -1)
    body.append(0)
    section = bytearray()
    append_varint(section, len(body))
    section += body
    header = BatchHeader(0, 0, -1, 2, 0, int(codec), 0, -(1 << 63), -1, -1, -1, -1, 1)
    data = pack_header(header, compress(codec, section))
    written = []
    for functions in (cleaning.PLAIN, compiled):
        offsets = cleaning.OffsetMap(1 << 16, 0.9, most_keys=10, functions=functions)
        offsets.latest_offset = 0
        written.append(new_filter(offsets, {}).filter_batch(data, 0, read_header(data)))
    plainly, fast = written
    assert plainly is not None
    assert fast is not None
    assert bytes(plainly.data) == bytes(fast.data)
    assert fast.header.delete_horizon == NOW + RETENTION
    (record,) = decode_batch(fast.data)[1]
    assert (record.key, record.value) == (b"k", None)
